"""Endpoints for a part of a thing whose id may hold slashes: `/steps/{step_id:path}/tokens`."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

__all__ = ["PartRoute"]


class PartRoute(APIRoute):
    """Its last word must stand in the path by itself: `/steps/a%2Ftokens` is the step `a/tokens`, and not the tokens of `a`."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As a route does, by the path as it was sent, where a slash within an id is percent-encoded."""
        sent: bytes = scope.get("raw_path") or scope["path"].encode()
        if unquote_to_bytes(sent.rpartition(b"/")[2]) != self.path.rpartition("/")[2].encode():
            return Match.NONE, {}
        return super().matches(scope)
