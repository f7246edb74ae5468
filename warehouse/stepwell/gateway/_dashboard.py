"""The dashboard: a page and its files, which ask the interface for everything that they show.

Nothing here is secret, so no token is asked for; the page has its own way to get one (`docs/dashboard.md`). Only files of the folder beside
this module are served: a name whose parts begin with anything but a letter or digit is none. The policy on what a page may load
holds even for a page that was made to misbehave: scripts, styles and connections of this origin, and no inline ones.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from stepwell.gateway._problems import Problem

__all__ = ["FOLDER", "dashboard_routes"]

FOLDER = Path(__file__).with_name("dashboard")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]*/){0,4}[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_FOREVER = "public, max-age=31536000, immutable"
"""For files whose names carry their version."""
_ASK = "no-cache"
"""Kept, and asked for again each time: answered 304 where it is the same."""


def dashboard_routes(folder: Path = FOLDER) -> APIRouter:
    """`GET /` and `GET /assets/…`. Not in the OpenAPI document: they are no part of the interface."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    def page(request: Request) -> Response:
        return _answer(request, folder / "index.html", _ASK)

    @router.api_route("/assets/{name:path}", methods=["GET", "HEAD"])
    def asset(request: Request, name: str) -> Response:
        return _answer(request, _file(folder, name), _FOREVER if name.startswith("vendor/") else _ASK)

    return router


def _file(folder: Path, name: str) -> Path:
    """The file of this name. Raises Problem (404) for what is none, and for what would lie outside of the folder."""
    file = folder / name
    named = _NAME.fullmatch(name) is not None and file.suffix in _TYPES
    if not (named and file.is_file() and file.resolve().is_relative_to(folder.resolve())):
        raise Problem(404, f"the dashboard has no file {name[:200]!r}")
    return file


def _answer(request: Request, file: Path, keep: str) -> Response:
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**_HEADERS, "etag": tag, "cache-control": keep}
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=_TYPES[file.suffix])
