"""The HTTP interface: submissions in, and what became of them out. All of it lies under `/api/v1`, but for `/v1/traces` and `/metrics`.

In: `POST /steps`, `/feedback`, `/trajectories`, `/exchanges` (calls that their client recorded), `/events` (what users did with an
answer), `/webhooks/{source}` (the same, signed), and `/v1/traces` (OpenTelemetry's spans, over OTLP). Each record is checked and
answered for on its own, after the spool has it on disk. `PUT /policy` declares which weights answer. `POST /flush` waits until what
was accepted can be read.

Out: `GET /steps`, `/trajectories`, `/groups`, `/datasets`, and one of each; `/stats`, `/policy`; `/stream`, what is committed from now on.

About itself: `GET /version`, `/openapi.json`; `/health`, `/ready` and `/metrics`, which ask for no token. Everything else does
(`Authorization: Bearer <token>`): the installation's, or one of `Tokens` with the scope. Errors are problem documents (RFC 9457).

The gateway needs no warehouse to take submissions: it writes to its own spool, which ingest reads. Nothing is accepted that
cannot be kept: a full spool answers 503 with Retry-After.

`GatewayConfig` can be imported without FastAPI; the application and the process are loaded when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.errors import MissingExtra
from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._tokens import SCOPES, Scope, Token, Tokens

if TYPE_CHECKING:
    from stepwell.gateway._app import create_app
    from stepwell.gateway._process import run_gateway

__all__ = ["SCOPES", "GatewayConfig", "Scope", "Token", "Tokens", "create_app", "run_gateway"]


def __getattr__(name: str) -> object:
    try:
        if name == "create_app":
            from stepwell.gateway._app import create_app

            return create_app
        if name == "run_gateway":
            from stepwell.gateway._process import run_gateway

            return run_gateway
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "stepwell":
            raise
        raise MissingExtra(error.name or "fastapi", "gateway") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
