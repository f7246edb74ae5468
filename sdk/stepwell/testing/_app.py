"""The ASGI application behind the server: request in, script asked, reply sampled, written and delivered."""

from __future__ import annotations

import inspect
import itertools
import logging
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stepwell.testing._delivery import DeliveredResponse, frame
from stepwell.testing._log import CallLog, LoggedCall, LoggedChoice
from stepwell.testing._sampling import Sample, sample
from stepwell.testing._script import ChatCall, Delivery, Reply, Script
from stepwell.testing._stream import stream_events
from stepwell.testing._template import ChatTemplate
from stepwell.testing._tokenizer import ByteTokenizer
from stepwell.testing._wire import Asked, Completion, answer_of, error_body, models_body, whole_reply

_logger = logging.getLogger(__name__)
_MAX_CHOICES = 128


class _Refused(Exception):
    """A request that is answered with an error status and never reaches the script."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ScriptedApp:
    """A scripted engine as an ASGI application (`.asgi`), for servers and in-process transports alike.

    `ScriptedServer` is this on a socket. `weight_version` may be set while it runs: it is reported to requests that ask
    for `return_weight_versions`.
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
        chat, models_route = self._chat, self._list_models
        self.asgi = Starlette(
            routes=[
                Route("/chat/completions", chat, methods=["POST"]),
                Route("/{prefix:path}/chat/completions", chat, methods=["POST"]),
                Route("/{prefix:path}/models", models_route, methods=["GET"]),
            ]
        )

    async def _list_models(self, _: Request) -> Response:
        return Response(models_body(self.models, self._created), media_type="application/json")

    async def _chat(self, request: Request) -> Response:
        exchange = _Exchange(self, request, next(self._numbers))
        try:
            exchange.raw = await _read_body(request, self._max_body_bytes)
            exchange.parse()
            replies = await self._ask(exchange)
        except _Refused as refusal:
            return exchange.error(refusal.status, str(refusal), Delivery())
        except Exception as error:  # the script is the user's: whatever it raises is answered and logged
            _logger.exception("the script failed on call %d", exchange.number)
            return exchange.error(500, f"the script failed: {type(error).__name__}: {error}", Delivery())
        delivery = next((reply.delivery for reply in replies if reply.delivery is not None), Delivery())
        if delivery.status >= 400:
            message = f"the script answered with status {delivery.status}"
            return exchange.error(delivery.status, message, delivery)
        return exchange.reply(replies, delivery)

    async def _ask(self, exchange: _Exchange) -> list[Reply]:
        replies = []
        for choice in range(exchange.n):
            body = exchange.body
            call = ChatCall(body["messages"], body.get("tools") or (), body, exchange.raw, exchange.number, choice)
            answer = self.script(call)
            replies.append(await answer if inspect.isawaitable(answer) else answer)
        return replies


async def _read_body(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _Refused(413, f"the request's body is larger than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


class _Exchange:
    """One request on its way to its reply and its entry in the log."""

    def __init__(self, app: ScriptedApp, request: Request, number: int) -> None:
        self.app = app
        self.number = number
        self.call_id = f"chatcmpl-{uuid.uuid4().hex}"
        self.raw = b""
        self.body: dict[str, Any] = {"messages": []}
        self.prompt_ids: list[int] = []
        self.n = 1
        self._max_tokens: int | None = None
        self._path = request.url.path
        self._http_version = str(request.scope["http_version"])
        self._headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.scope["headers"]]

    def parse(self) -> None:
        """Read the request and render its prompt. Raises `_Refused` for what an engine refuses too."""
        try:
            body = orjson.loads(self.raw)
        except orjson.JSONDecodeError as error:
            raise _Refused(400, f"the request's body is not JSON: {error}") from error
        if not isinstance(body, dict) or not _are_messages(body.get("messages")):
            raise _Refused(400, "`messages` must be a list of objects with a `role`")
        self.body = body
        self.n = _count(body, "n", most=_MAX_CHOICES) or 1
        self._max_tokens = _count(body, "max_completion_tokens") or _count(body, "max_tokens")
        try:
            prompt = self.app.template.render(body["messages"], body.get("tools") or ())
        except (jinja2.TemplateError, TypeError) as error:
            raise _Refused(400, f"the chat template cannot render these messages: {error}") from error
        self.prompt_ids = self.app.tokenizer.encode(prompt)

    def error(self, status: int, message: str, delivery: Delivery) -> DeliveredResponse:
        framed = frame([error_body(status, message)], delivery, stream=False, status=status)
        return DeliveredResponse(framed, delivery, lambda ok, sent: self._log([], status, ok, sent, message))

    def reply(self, replies: Sequence[Reply], delivery: Delivery) -> DeliveredResponse:
        tokenizer = self.app.tokenizer
        samples = [sample(reply, self.prompt_ids, tokenizer, self._max_tokens) for reply in replies]
        completion = Completion(
            id=self.call_id,
            created=int(time.time()),
            model=str(self.body.get("model") or self.app.models[0]),
            prompt_ids=self.prompt_ids,
            samples=samples,
            asked=Asked.of(self.body),
            tokenizer=tokenizer,
            weight_version=self.app.weight_version,
        )
        stream = completion.asked.stream
        events = stream_events(completion, delivery) if stream else [whole_reply(completion)]
        framed = frame(events, delivery, stream=stream)
        return DeliveredResponse(framed, delivery, lambda ok, sent: self._log(samples, framed.status, ok, sent, None))

    def _log(self, samples: Sequence[Sample], status: int, delivered: bool, sent: bytes, error: str | None) -> None:
        self.app.log.add(
            LoggedCall(
                call_id=self.call_id,
                number=self.number,
                path=self._path,
                model=str(self.body.get("model") or ""),
                messages=self.body["messages"],
                tools=self.body.get("tools") or (),
                prompt_ids=self.prompt_ids,
                choices=[_logged_choice(index, sampled) for index, sampled in enumerate(samples)],
                stream=bool(self.body.get("stream")),
                status=status,
                delivered=delivered,
                http_version=self._http_version,
                headers=self._headers,
                weight_version=self.app.weight_version,
                error=error,
                request=self.raw,
                sent=sent,
            )
        )


def _logged_choice(index: int, sampled: Sample) -> LoggedChoice:
    answer = answer_of(sampled)
    return LoggedChoice(
        index=index,
        response_ids=sampled.ids,
        logprobs=sampled.logprobs,
        text=sampled.text,
        content=answer.content,
        reasoning=answer.reasoning,
        tool_calls=answer.tool_calls,
        finish_reason=sampled.finish_reason,
    )


def _are_messages(messages: object) -> bool:
    return isinstance(messages, list) and all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages)


def _count(body: dict[str, Any], name: str, most: int = 2**31) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or not 1 <= value <= most:
        raise _Refused(400, f"`{name}` is {value!r}: it must be an integer from 1 to {most}")
    return value
