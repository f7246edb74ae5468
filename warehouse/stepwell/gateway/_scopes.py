"""Which scope a request needs.

`ingest` submits, `read` reads, `curate` judges (feedback, and selections of steps), `admin` may do all of it and what changes the data of
others. What has no rule here is for admins alone, so that a new endpoint is closed until somebody thinks of it.
"""

from __future__ import annotations

import re

__all__ = ["is_open", "scopes_for"]

_API = "/api/v1"
_OPEN = frozenset({"/", f"{_API}/health", f"{_API}/ready", "/metrics"})
_SIGNED = f"{_API}/webhooks/"
"""What lies below is let in by its signature."""
_PAGE = "/assets/"
"""The dashboard's own files; what they show, they ask for with a token."""
_ANY = frozenset({f"{_API}/version", f"{_API}/openapi.json"})

_CLOSED = frozenset({f"{_API}/system/tokens"})
"""Read by admins alone."""

_READING = frozenset({"GET", "HEAD"})
_WRITES: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = tuple(
    (re.compile(asked), frozenset(scopes))
    for asked, scopes in (
        (rf"POST {_API}/(steps|trajectories|exchanges|events)", {"ingest"}),
        (rf"POST {_API}/trajectories/.+/complete", {"ingest"}),
        (r"POST /v1/traces", {"ingest"}),
        (rf"POST {_API}/(feedback|flush)", {"ingest", "curate"}),
        (rf"POST {_API}/batches/(preview|prefix-tree)", {"read"}),
        (rf"POST {_API}/feedback/(bulk|undo/.+)", {"curate"}),
        (rf"(POST|PUT|DELETE) {_API}/datasets(/.*)?", {"curate"}),
        (rf"(PUT|DELETE) {_API}/views/.+", {"curate"}),
        (rf"POST {_API}/quarantine/.+/reparse", {"curate"}),
    )
)


def is_open(path: str) -> bool:
    """Whether no token is asked for."""
    return path in _OPEN or path.startswith((_SIGNED, _PAGE))


def scopes_for(method: str, path: str) -> frozenset[str] | None:
    """Any of these scopes will do, besides `admin`; None: any token will do."""
    if method in _READING and path in _CLOSED:
        return frozenset()
    if method in _READING:
        return None if path in _ANY else frozenset({"read"})
    return next((scopes for pattern, scopes in _WRITES if pattern.fullmatch(f"{method} {path}")), frozenset())
