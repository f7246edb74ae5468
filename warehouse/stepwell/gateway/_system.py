"""`GET /system`, `GET /system/tokens`: what is installed, how it is set, and what it takes."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from stepwell.errors import StoreError
from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._kept import Kept
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_rows import READ
from stepwell.gateway._tokens import Token, Tokens
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = ["masked", "system_routes"]

_PACKAGES = ("stepwell", "pylance", "lancedb", "pyarrow", "duckdb", "numpy", "fastapi", "uvicorn", "pydantic")
_SECRET = ("secret", "token", "password", "credential", "key", "webhooks", "authorization", "headers", "pattern")
_MASK = "…"


def system_routes(
    keeper: Keeper,
    config: GatewayConfig,
    warehouse: LazyWarehouse,
    tokens: Tokens | None,
    settings: Mapping[str, Any] | None,
) -> APIRouter:
    """`settings`: those of the whole installation, where the gateway was told; else its own are shown."""
    router = APIRouter(tags=["system"])
    said = masked(dict(settings) if settings is not None else {"gateway": config.model_dump(mode="json")})
    stored = Kept(lambda: _storage(warehouse))

    @router.get("/system", responses=READ)
    def get_system() -> Response:
        """Settings in force (what may be secret is not shown), routes, storage by table with what pins it, versions of software."""
        return json_response(
            {
                "at": datetime.now(UTC),
                "settings": said,
                "routes": (said.get("proxy") or {}).get("routes") or [],
                "data": str(keeper.folder.parent),
                "storage": stored.get(),
                "software": {"python": platform.python_version(), **_versions()},
            }
        )

    @router.get("/system/tokens")
    def get_tokens() -> Response:
        """The tokens with scopes, without their secrets, which nobody has."""
        return json_response(
            {"items": [] if tokens is None else [_shown(token) for token in tokens.all()], "next": None}
        )

    return router


def masked(value: Any, name: str = "") -> Any:
    """Settings without what may be a secret, by the names: such values are `…`, and of mappings and lists each member is."""
    hidden = any(word in name.lower() for word in _SECRET)
    if isinstance(value, Mapping):
        return {key: masked(one, f"{name}.{key}" if hidden else str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked(one, name) for one in value]
    return _MASK if hidden and value is not None else _without_user(value)


def _without_user(value: Any) -> Any:
    """A URL's user and password are not shown."""
    if isinstance(value, str) and "://" in value and "@" in value:
        scheme, _, rest = value.partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}://{_MASK}@{host.rpartition('@')[2]}{slash}{path}" if "@" in host else value
    return value


def _storage(warehouse: LazyWarehouse) -> dict[str, Any]:
    try:
        tables = warehouse.storage()
    except StoreError as error:  # the rest can be told all the same
        return {"tables": [], "bytes": None, "problem": str(error)}
    return {"tables": tables, "bytes": sum(one["bytes"] for one in tables)}


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _shown(token: Token) -> dict[str, Any]:
    times = {name: getattr(token, name) for name in ("created_at", "expires_at", "used_at")}
    return {
        "id": token.id,
        "scopes": sorted(token.scopes),
        "project": token.project,
        "note": token.note,
        **{name: None if at is None else datetime.fromtimestamp(at, UTC) for name, at in times.items()},
    }
