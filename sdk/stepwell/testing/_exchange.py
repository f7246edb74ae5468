"""One request on its way to its answer and its entry in the log."""

from __future__ import annotations

import inspect
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2
import orjson

from stepwell.testing._dialect import Body, Conversation, Dialect, Received, Refused, Turn, Unsayable
from stepwell.testing._log import LoggedCall, LoggedChoice
from stepwell.testing._sampling import Sample, sample
from stepwell.testing._script import ChatCall, Delivery, Reply
from stepwell.testing._wire import answer_of

if TYPE_CHECKING:
    from stepwell.testing._app import ScriptedApp

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """An answer before it is framed."""

    body: Body
    delivery: Delivery
    status: int
    stream: bool
    on_end: Callable[[bool, bytes], None]
    """To be called once, with whether it was delivered whole, and the body that was sent."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What there is of a request besides its body."""

    path: str
    http_version: str
    headers: list[tuple[str, str]]
    params: Mapping[str, str]
    query: Mapping[str, str]


class Exchange:
    """One request: read, put to the script, sampled, written, logged."""

    def __init__(self, app: ScriptedApp, dialect: Dialect, envelope: Envelope, number: int) -> None:
        self._app = app
        self._dialect = dialect
        self._envelope = envelope
        self._number = number
        self._call_id = f"{dialect.id_prefix}{uuid.uuid4().hex}"
        self._raw = b""
        self._received = Received({}, envelope.path, envelope.params, envelope.query)
        self._conversation = Conversation([])
        self._prompt_ids: list[int] = []

    async def answer(self, raw: bytes) -> Prepared:
        """The answer to a request's body; whatever goes wrong is an answer as well."""
        self._raw = raw
        try:
            self._read()
            replies = await self._ask()
            delivery = next((reply.delivery for reply in replies if reply.delivery is not None), Delivery())
            if delivery.status < 400:
                return self._reply(replies, delivery)
        except Refused as refusal:
            return self.error(refusal.status, str(refusal), Delivery())
        except Unsayable as error:
            return self.error(500, f"the script's answer does not fit {self._dialect.name}: {error}", Delivery())
        except Exception as error:  # the script is the user's: whatever it raises is answered and logged
            _logger.exception("the script failed on call %d", self._number)
            return self.error(500, f"the script failed: {type(error).__name__}: {error}", Delivery())
        return self.error(delivery.status, f"the script answered with status {delivery.status}", delivery)

    def _read(self) -> None:
        """Read the request and render its prompt. Raises `Refused` for what an engine refuses too."""
        envelope = self._envelope
        try:
            body = orjson.loads(self._raw)
        except orjson.JSONDecodeError as error:
            raise Refused(400, f"the request's body is not JSON: {error}") from error
        fields = body if isinstance(body, dict) else {}
        self._received = Received(fields, envelope.path, envelope.params, envelope.query)
        try:
            asked = self._conversation = self._dialect.read(self._received)
            prompt = asked.prompt
            if prompt is None:
                prompt = self._app.template.render(asked.messages, asked.tools)
        except jinja2.TemplateError as error:
            raise Refused(400, f"the chat template cannot render these messages: {error}") from error
        except (AttributeError, KeyError, TypeError) as error:  # of a shape that nothing promised
            message = f"the chat template cannot render these messages, or they cannot be read: {type(error).__name__}: {error}"
            raise Refused(400, message) from error
        self._prompt_ids = self._app.tokenizer.encode(prompt)

    async def _ask(self) -> list[Reply]:
        asked = self._conversation
        replies = []
        for choice in range(0 if asked.silent else asked.n):
            call = ChatCall(
                asked.messages,
                asked.tools,
                self._received.body,
                self._raw,
                self._number,
                choice,
                self._dialect.name,
                asked.model,
            )
            answer = self._app.script(call)
            replies.append(await answer if inspect.isawaitable(answer) else answer)
        return replies

    def _reply(self, replies: Sequence[Reply], delivery: Delivery) -> Prepared:
        asked, tokenizer = self._conversation, self._app.tokenizer
        samples = [sample(reply, self._prompt_ids, tokenizer, asked.max_tokens) for reply in replies]
        turn = Turn(
            id=self._call_id,
            created=int(time.time()),
            model=asked.model or self._app.models[0],
            received=self._received,
            conversation=asked,
            prompt_ids=self._prompt_ids,
            samples=samples,
            tokenizer=tokenizer,
            weight_version=self._app.weight_version,
        )
        stream = asked.stream
        body = self._dialect.stream(turn, delivery) if stream else self._dialect.whole(turn)
        status = delivery.status
        return Prepared(body, delivery, status, stream, lambda ok, sent: self._log(samples, status, ok, sent, None))

    def error(self, status: int, message: str, delivery: Delivery) -> Prepared:
        """An error in the vendor's shape, and its entry in the log."""
        body = self._dialect.error(status, message)
        return Prepared(body, delivery, status, False, lambda ok, sent: self._log([], status, ok, sent, message))

    def _log(self, samples: Sequence[Sample], status: int, delivered: bool, sent: bytes, error: str | None) -> None:
        asked, envelope = self._conversation, self._envelope
        self._app.log.add(
            LoggedCall(
                call_id=self._call_id,
                number=self._number,
                path=envelope.path,
                model=asked.model,
                messages=asked.messages,
                tools=asked.tools,
                prompt_ids=self._prompt_ids,
                choices=[_logged_choice(index, sampled) for index, sampled in enumerate(samples)],
                stream=asked.stream,
                status=status,
                delivered=delivered,
                http_version=envelope.http_version,
                headers=envelope.headers,
                weight_version=self._app.weight_version,
                error=error,
                request=self._raw,
                sent=sent,
                dialect=self._dialect.name,
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


def envelope_of(scope: Mapping[str, Any], params: Mapping[str, str], query: Mapping[str, str]) -> Envelope:
    """The envelope in an ASGI scope."""
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    return Envelope(scope["path"], str(scope["http_version"]), headers, params, query)
