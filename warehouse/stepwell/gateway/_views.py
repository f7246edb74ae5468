"""`GET /views`, `PUT /views/{name}`, `DELETE /views/{name}`: filters and the like that people want to find again, shared by all.

They are in `views.json` in the data folder. What a view holds is its client's business.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Request
from fastapi import Path as InPath
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from stepwell.errors import StoreError
from stepwell.gateway._body import parsed, read_body
from stepwell.gateway._openapi import RESPONSES, refusal, takes_one
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._read_rows import FOUND
from stepwell.sdk.records import checked

__all__ = ["FILE", "Views", "view_routes"]

_log = logging.getLogger(__name__)

FILE = "views.json"
_MOST = 500
_BYTES = 64 << 10
"""Of one view, as JSON."""

Name = Annotated[str, InPath(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class View(BaseModel):
    """What is kept under a name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    view: dict[str, Any]
    """Whatever the client needs to show it again: a route, parameters."""
    note: Annotated[str, Field(max_length=2000)] | None = None


class Views:
    """Any thread; one process. Without a path they last as long as the object."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._views: dict[str, dict[str, Any]] = _read(path)

    def all(self) -> list[dict[str, Any]]:
        """Every view, by name."""
        with self._lock:
            return [{"name": name, **view} for name, view in sorted(self._views.items())]

    def get(self, name: str) -> dict[str, Any]:
        """One of them. Raises Problem (404)."""
        with self._lock:
            if name not in self._views:
                raise Problem(404, f"there is no saved view {name!r:.300}; GET /api/v1/views lists them")
            return {"name": name, **self._views[name]}

    def put(self, name: str, view: View) -> dict[str, Any]:
        """Keep it, in place of what has that name. Raises Problem (422) beyond the bounds, StoreError where the disk fails."""
        kept = {"view": view.view, "note": view.note, "updated_at": datetime.now(UTC).isoformat()}
        if len(_encoded(kept)) > _BYTES:
            raise Problem(422, f"view: more than {_BYTES} bytes", field="view")
        with self._lock:
            if name not in self._views and len(self._views) >= _MOST:
                raise Problem(422, f"there are {_MOST} saved views already: delete one", field="name")
            self._write({**self._views, name: kept})
            return {"name": name, **kept}

    def delete(self, name: str) -> None:
        """Forget it. Raises Problem (404), StoreError."""
        with self._lock:
            if name not in self._views:
                raise Problem(404, f"there is no saved view {name!r:.300}; GET /api/v1/views lists them")
            self._write({key: view for key, view in self._views.items() if key != name})

    def _write(self, views: dict[str, dict[str, Any]]) -> None:
        if self._path is not None:
            try:
                new = self._path.with_name(f"{self._path.name}.new")
                new.write_bytes(_encoded({"format": 1, "views": views}))
                new.replace(self._path)
            except OSError as error:
                raise StoreError(f"cannot keep the view in {self._path}: {error}") from error
        self._views = views


def view_routes(views: Views) -> APIRouter:
    """Whoever reads sees them; whoever curates changes them."""
    router = APIRouter(tags=["views"])
    changed: dict[int | str, dict[str, Any]] = {422: refusal("It cannot be kept."), 503: refusal("The disk failed.")}
    sent: dict[int | str, dict[str, Any]] = {code: RESPONSES[code] for code in (400, 413, 415)}

    @router.get("/views")
    def get_views() -> Response:
        """Saved views, by name."""
        return json_response({"items": views.all(), "next": None})

    @router.get("/views/{name:path}", responses=FOUND)
    def get_view(name: Name) -> Response:
        """One of them."""
        return json_response(views.get(name))

    @router.put("/views/{name:path}", openapi_extra=takes_one(View), responses={**sent, **changed})
    async def put_view(name: Name, request: Request) -> Response:
        """Save a view, in place of what has that name."""
        view = checked(View, parsed((await read_body(request, 2 * _BYTES)).plain))
        return json_response(await run_in_threadpool(views.put, name, view))

    @router.delete(
        "/views/{name:path}", status_code=204, responses={404: refusal("There is none of this name."), **changed}
    )
    def delete_view(name: Name) -> Response:
        """Delete a saved view."""
        views.delete(name)
        return Response(status_code=204)

    return router


def _encoded(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, RecursionError) as error:  # half a surrogate pair, integers beyond 64 bits, too deep
        raise Problem(422, f"view: cannot be written as JSON: {error}", field="view") from error


def _read(path: Path | None) -> dict[str, dict[str, Any]]:
    """What is in the file. One that is none is put aside, as `views.json.damaged`: the next view would be written over it."""
    if path is None or not path.exists():
        return {}
    try:
        views = orjson.loads(path.read_bytes())["views"]
        return {str(name): {key: view[key] for key in ("view", "note", "updated_at")} for name, view in views.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        _log.warning("%s cannot be read (%s: %s): there are no saved views", path, type(error).__name__, error)
        with suppress(OSError):
            path.replace(path.with_name(f"{path.name}.damaged"))
        return {}
