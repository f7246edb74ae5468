"""What the OpenAPI document says of bodies and answers that FastAPI does not see, and the document as a file.

python -m stepwell.gateway._openapi docs/openapi.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

__all__ = ["RESPONSES", "document", "takes", "takes_fields"]

RESULTS: dict[str, Any] = {
    "type": "object",
    "required": ["items"],
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "status"],
                "properties": {
                    "id": {"type": ["string", "null"]},
                    "status": {"enum": ["accepted", "duplicate", "refused"]},
                    "field": {"type": "string"},
                    "message": {"type": "string"},
                },
            },
        }
    },
}
PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
        "items": RESULTS["properties"]["items"],
    },
}


def _problem(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/problem+json": {"schema": PROBLEM}}}


RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "At least one record was taken.", "content": {"application/json": {"schema": RESULTS}}},
    400: _problem("The body cannot be read."),
    409: _problem("A request with this Idempotency-Key is being worked on."),
    413: _problem("The body or the batch is too large."),
    415: _problem("The form or the encoding of the body is not taken."),
    422: _problem("Every record was refused; `items` says why."),
    429: _problem("Too many requests: come again after Retry-After."),
    503: _problem("The spool is full: come again after Retry-After."),
}

_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request again is answered as the first one, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


def takes(model: type[BaseModel], *lines: str, binary: str | None = None) -> dict[str, Any]:
    """An endpoint that takes one `model` or an array of them; `lines` are media types with one per line, `binary` one of bytes."""
    one = model.model_json_schema()
    content: dict[str, Any] = {"application/json": {"schema": {"oneOf": [one, {"type": "array", "items": one}]}}}
    for kind in lines:
        content[kind] = {"schema": {"type": "string", "description": f"One {model.__name__} per line."}}
    if binary is not None:
        description = f"One {model.__name__} per row; the columns are its fields."
        content[binary] = {"schema": {"type": "string", "format": "binary", "description": description}}
    return {"parameters": [_KEY], "requestBody": {"required": True, "content": content}}


def takes_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """An endpoint whose body may be left out."""
    return {
        "parameters": [_KEY],
        "requestBody": {"required": False, "content": {"application/json": {"schema": schema}}},
    }


def document() -> str:
    """The OpenAPI document of this version, as it is checked in."""
    from tempfile import TemporaryDirectory

    from stepwell.gateway._app import create_app
    from stepwell.spool import Spool, SpoolWriter

    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        writer = SpoolWriter(Spool(folder / "gateway.db"))
        try:
            app = create_app(writer=writer, spool_folder=folder, token="-", warehouse=_no_warehouse)  # noqa: S106
            return json.dumps(app.openapi(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        finally:
            writer.close()


def _no_warehouse() -> Any:
    raise FileNotFoundError("there is no warehouse")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
