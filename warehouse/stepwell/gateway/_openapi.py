"""What the OpenAPI document says of bodies and answers that FastAPI does not see, and the document as a file.

python -m stepwell.gateway._openapi docs/openapi.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from stepwell.gateway._scopes import is_open, scopes_for

__all__ = ["KEYED", "RESPONSES", "Described", "document", "inlined", "refusal", "takes", "takes_fields", "takes_one"]

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


def refusal(description: str) -> dict[str, Any]:
    """An answer that is a problem document."""
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "At least one record was taken.", "content": {"application/json": {"schema": RESULTS}}},
    400: refusal("The body cannot be read."),
    409: refusal("A request with this Idempotency-Key is being worked on."),
    413: refusal("The body or the batch is too large."),
    415: refusal("The form or the encoding of the body is not taken."),
    422: refusal("Every record was refused; `items` says why."),
    429: refusal("Too many requests: come again after Retry-After."),
    503: refusal("The spool is full: come again after Retry-After."),
}

KEYED = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request again is answered as the first one, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


def takes(model: type[BaseModel], *lines: str, binary: str | None = None, keyed: bool = True) -> dict[str, Any]:
    """An endpoint that takes one `model` or an array of them; `lines` are media types with one per line, `binary` one of bytes.

    `keyed`: it looks at `Idempotency-Key`, here and below.
    """
    one = model.model_json_schema()
    content: dict[str, Any] = {"application/json": {"schema": {"oneOf": [one, {"type": "array", "items": one}]}}}
    for kind in lines:
        content[kind] = {"schema": {"type": "string", "description": f"One {model.__name__} per line."}}
    if binary is not None:
        description = f"One {model.__name__} per row; the columns are its fields."
        content[binary] = {"schema": {"type": "string", "format": "binary", "description": description}}
    return _keyed({"requestBody": {"required": True, "content": content}}, keyed)


def takes_fields(schema: dict[str, Any], *, keyed: bool = True) -> dict[str, Any]:
    """An endpoint whose body may be left out."""
    return _keyed({"requestBody": {"required": False, "content": {"application/json": {"schema": schema}}}}, keyed)


def takes_one(model: type[BaseModel], *, required: bool = True, keyed: bool = False) -> dict[str, Any]:
    """An endpoint whose body is one `model`, which it reads by itself, within a bound."""
    content = {"application/json": {"schema": inlined(model.model_json_schema())}}
    return _keyed({"requestBody": {"required": required, "content": content}}, keyed)


def _keyed(operation: dict[str, Any], keyed: bool) -> dict[str, Any]:
    return {**operation, "parameters": [KEYED]} if keyed else operation


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Models within a model in the place where they are: references into a part of a document lead nowhere."""
    parts = schema.pop("$defs", {})

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            named = str(value.get("$ref", "")).rpartition("/")[2]
            return put(parts[named]) if named in parts else {name: put(one) for name, one in value.items()}
        return [put(one) for one in value] if isinstance(value, list) else value

    found: dict[str, Any] = put(schema)
    return found


_BEARER = {"type": "http", "scheme": "bearer", "description": "The installation's token, or one with scopes."}
_GUARDED = {
    "401": refusal("No token, or one that is unknown, expired or revoked."),
    "403": refusal("The token has not the scope that this needs, or the request is another web page's."),
    "421": refusal("The gateway does not answer to this host name."),
}


class Described(FastAPI):
    """An application whose document says what the guard asks for: it stands before the endpoints, which know nothing of it."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made once."""
        if self.openapi_schema is None:
            said = super().openapi()
            parts = said.setdefault("components", {})
            parts["securitySchemes"] = {"token": _BEARER}
            parts["responses"] = {f"Guard{code}": answer for code, answer in _GUARDED.items()}
            parts.setdefault("schemas", {})["Problem"] = PROBLEM
            for path, operations in said["paths"].items():
                for method, operation in operations.items():
                    _guard(method.upper(), path, operation)
        return super().openapi()


def _guard(method: str, path: str, operation: dict[str, Any]) -> None:
    if is_open(path):
        codes = [code for code in _GUARDED if code != "401"]
        operation["security"] = []
    else:
        codes = list(_GUARDED)
        operation["security"] = [{"token": []}]
        needed = scopes_for(method, path)
        words = "any" if needed is None else " or ".join(f"`{scope}`" for scope in sorted(needed | {"admin"}))
        operation["description"] = f"{operation['description']}\n\nScope of the token: {words}."
    refusals = {code: {"$ref": f"#/components/responses/Guard{code}"} for code in codes}
    operation["responses"] = {**refusals, **operation["responses"]}  # an endpoint's own word counts more


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
