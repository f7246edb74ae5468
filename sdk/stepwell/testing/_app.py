"""The ASGI application behind the server: every dialect's paths, the list of models, and the bounds of a body."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from stepwell.testing._delivery import DeliveredResponse, frame
from stepwell.testing._dialect import Dialect, Refused
from stepwell.testing._dialects import new_dialects
from stepwell.testing._exchange import Exchange, Prepared, envelope_of
from stepwell.testing._log import CallLog
from stepwell.testing._script import Delivery, Script
from stepwell.testing._socket import serve_socket
from stepwell.testing._template import ChatTemplate
from stepwell.testing._tokenizer import ByteTokenizer
from stepwell.testing._wire import models_body
from stepwell.testing._wire_responses import OnSocket, OpenAIResponses

_PREFIXES = ("", "/{prefix:path}")
_Endpoint = Callable[[Request], Awaitable[Response]]


class ScriptedApp:
    """A scripted engine as an ASGI application (`.asgi`), for servers and in-process transports alike.

    `ScriptedServer` is this on a socket. `weight_version` may be set while it runs: it is reported to requests that ask
    for `return_weight_versions`. Without `sockets` an upgrade to a WebSocket is answered with 426.
    """

    def __init__(
        self,
        script: Script,
        *,
        models: Sequence[str] = ("scripted",),
        weight_version: str | None = None,
        log_path: Path | None = None,
        keep_calls: int | None = None,
        max_body_bytes: int = 64 * 2**20,
        sockets: bool = True,
    ) -> None:
        self.script = script
        self.models = tuple(models)
        self.weight_version = weight_version
        self.tokenizer = ByteTokenizer()
        self.template = ChatTemplate()
        self.log = CallLog(log_path, keep_calls)
        self._max_body_bytes = max_body_bytes
        self._numbers = itertools.count()
        self._created = int(time.time())
        routes: list[BaseRoute] = []
        for dialect in new_dialects():
            for path in dialect.paths:
                routes += _anywhere(path, self._generation(dialect), "POST")
            if isinstance(dialect, OpenAIResponses):
                endpoint = self._socket(OnSocket(dialect)) if sockets else _refuse_upgrade
                routes += [WebSocketRoute(prefix + path, endpoint) for path in dialect.paths for prefix in _PREFIXES]
        routes += _anywhere("/models", self._list_models, "GET")
        self.asgi = Starlette(routes=routes)

    async def _list_models(self, _: Request) -> Response:
        return Response(models_body(self.models, self._created), media_type="application/json")

    def _generation(self, dialect: Dialect) -> _Endpoint:
        async def answer(request: Request) -> Response:
            envelope = envelope_of(request.scope, request.path_params, request.query_params)
            exchange = Exchange(self, dialect, envelope, next(self._numbers))
            try:
                raw = await _read_body(request, self._max_body_bytes)
            except Refused as refusal:
                prepared = exchange.error(refusal.status, str(refusal), Delivery())
            else:
                prepared = await exchange.answer(raw)
            framed = frame(prepared.body, prepared.delivery, stream=prepared.stream, status=prepared.status)
            return DeliveredResponse(framed, prepared.delivery, prepared.on_end)

        return answer

    def _socket(self, dialect: Dialect) -> Callable[[WebSocket], Awaitable[None]]:
        async def serve(socket: WebSocket) -> None:
            envelope = envelope_of(socket.scope, socket.path_params, socket.query_params)

            async def answer(frame: bytes) -> Prepared:
                return await Exchange(self, dialect, envelope, next(self._numbers)).answer(frame)

            await serve_socket(socket, answer)

        return serve


async def _refuse_upgrade(socket: WebSocket) -> None:
    await socket.send_denial_response(Response(status_code=426))


def _anywhere(path: str, endpoint: _Endpoint, method: str) -> list[BaseRoute]:
    """A path by itself, and with anything before it."""
    return [Route(prefix + path, endpoint, methods=[method]) for prefix in _PREFIXES]


async def _read_body(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise Refused(413, f"the request's body is larger than {limit} bytes")
        parts.append(part)
    return b"".join(parts)
