"""OpenAI's Responses API: plain, as server-sent events, and as the frames of a WebSocket.

Earlier answers are remembered by their ids, the newest some hundred of them, so that `previous_response_id` continues them with nothing
but what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from stepwell.testing._dialect import Body, Conversation, Json, Received, Refused, Turn, count
from stepwell.testing._responses_items import messages_of, tools_of
from stepwell.testing._responses_output import ItemEvents, items_of
from stepwell.testing._script import Delivery
from stepwell.testing._wire import answer_of, error_body
from stepwell.testing._words import assistant, made_call, pieces_of, sse

_REMEMBERED = 500
_ECHOED = ("instructions", "metadata", "previous_response_id", "temperature", "top_p", "max_output_tokens", "store")


class OpenAIResponses:
    """`POST …/responses`, and `response.create` on a socket that was opened at the same path."""

    name = "openai.responses"
    paths = ("/responses",)
    id_prefix = "resp_"

    def __init__(self) -> None:
        self._remembered: OrderedDict[str, list[Json]] = OrderedDict()

    def read(self, received: Received) -> Conversation:
        body = received.body
        earlier = self._earlier(body.get("previous_response_id"))
        instructions = body.get("instructions")
        first = [{"role": "system", "content": instructions}] if instructions else []
        return Conversation(
            [*first, *earlier, *messages_of(body.get("input", []))],
            tools_of(body),
            str(body.get("model") or ""),
            bool(body.get("stream")),
            max_tokens=count(body, "max_output_tokens"),
            silent=body.get("generate") is False,
        )

    def whole(self, turn: Turn) -> Body:
        self._remember(turn)
        output = [] if turn.conversation.silent else items_of(turn)
        return Body([orjson.dumps(_response(turn, output, ended=True))])

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        frames = [sse(orjson.dumps(event), event["type"]) for event in self.events(turn, delivery)]
        return Body(frames, "text/event-stream; charset=utf-8")

    def error(self, status: int, message: str) -> Body:
        return Body([error_body(status, message)])

    def events(self, turn: Turn, delivery: Delivery) -> Iterator[Json]:
        """The events of a streamed answer, numbered."""
        self._remember(turn)
        for number, event in enumerate(_events(turn, delivery)):
            yield {**event, "sequence_number": number}

    def _earlier(self, id_: Any) -> list[Json]:
        if id_ is None:
            return []
        if id_ not in self._remembered:
            raise Refused(400, f"Previous response with id {id_!r} not found.")
        return self._remembered[id_]

    def _remember(self, turn: Turn) -> None:
        """What the answer's id stands for: all that was said but instructions, which count for one call only."""
        asked = turn.conversation.messages[1 if turn.received.body.get("instructions") else 0 :]
        answers = [answer_of(sample) for sample in turn.samples]
        told = [
            assistant(
                [answer.content] if answer.content else [],
                [answer.reasoning] if answer.reasoning else [],
                [made_call(call.id, call.name, call.arguments) for call in answer.tool_calls],
            )
            for answer in answers
        ]
        self._remembered[turn.id] = [*asked, *told]
        while len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)


class OnSocket:
    """The same API on a WebSocket: always streamed, each event a message, and an error is an event as well."""

    name = OpenAIResponses.name
    paths = OpenAIResponses.paths
    id_prefix = OpenAIResponses.id_prefix

    def __init__(self, responses: OpenAIResponses) -> None:
        self._responses = responses

    def read(self, received: Received) -> Conversation:
        kind = received.body.get("type")
        if kind != "response.create":
            raise Refused(400, f"the type of a message must be 'response.create', not {kind!r}")
        return replace(self._responses.read(received), stream=True)

    def whole(self, turn: Turn) -> Body:
        return self.stream(turn, Delivery())

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        return Body([orjson.dumps(event) + b"\n" for event in self._responses.events(turn, delivery)])

    def error(self, status: int, message: str) -> Body:
        body = orjson.loads(error_body(status, message))
        return Body([orjson.dumps({"type": "error", "status": status, **body}) + b"\n"])


def _events(turn: Turn, delivery: Delivery) -> Iterator[Json]:
    begun = _response(turn, [], ended=False)
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    writer = ItemEvents(turn)
    for sample in turn.samples:
        for piece in pieces_of(sample, delivery.chunk_tokens):
            yield from writer.add(piece)
    yield from writer.close()
    ended = _response(turn, writer.items, ended=True)
    yield {"type": f"response.{ended['status']}", "response": ended}


def _response(turn: Turn, output: list[Json], *, ended: bool) -> Json:
    body = turn.received.body
    reason = turn.samples[0].finish_reason if turn.samples else "stop"
    why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reason) if ended else None
    response: Json = {
        "id": turn.id,
        "object": "response",
        "created_at": turn.created,
        "status": ("incomplete" if why else "completed") if ended else "in_progress",
        "error": None,
        "incomplete_details": {"reason": why} if why else None,
        "model": turn.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        **{name: body.get(name) for name in _ECHOED},
        "usage": _usage(turn) if ended else None,
    }
    if ended and body.get("enable_response_messages") and turn.samples:
        response |= _raw_messages(turn)
    return response


def _usage(turn: Turn) -> Json:
    prompt = len(turn.prompt_ids) if turn.samples else 0
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": turn.generated,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + turn.generated,
    }


def _raw_messages(turn: Turn) -> Json:
    """Token ids as vLLM gives them in this API."""
    ids = {"input_messages": turn.prompt_ids, "output_messages": turn.samples[0].ids}
    return {
        name: [{"type": "raw_message_tokens", "message": turn.tokenizer.decode(tokens), "tokens": tokens}]
        for name, tokens in ids.items()
    }
