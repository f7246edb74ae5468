"""OpenAI chat completions, in the shape of vLLM: plain and as server-sent events."""

from __future__ import annotations

from stepwell.testing._dialect import Body, Conversation, Received, Turn, count, objects
from stepwell.testing._script import Delivery
from stepwell.testing._stream import stream_events
from stepwell.testing._wire import Asked, Completion, error_body, whole_reply

_MAX_CHOICES = 128


class OpenAIChat:
    """`POST …/chat/completions`."""

    name = "openai.chat"
    paths = ("/chat/completions",)
    id_prefix = "chatcmpl-"

    def read(self, received: Received) -> Conversation:
        body = received.body
        return Conversation(
            messages=objects(body, "messages", "role"),
            tools=body.get("tools") or (),
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            n=count(body, "n", most=_MAX_CHOICES) or 1,
            max_tokens=count(body, "max_completion_tokens") or count(body, "max_tokens"),
        )

    def whole(self, turn: Turn) -> Body:
        return Body([whole_reply(_completion(turn))])

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        return Body(stream_events(_completion(turn), delivery), "text/event-stream; charset=utf-8")

    def error(self, status: int, message: str) -> Body:
        return Body([error_body(status, message)])


def _completion(turn: Turn) -> Completion:
    return Completion(
        id=turn.id,
        created=turn.created,
        model=turn.model,
        prompt_ids=turn.prompt_ids,
        samples=turn.samples,
        asked=Asked.of(turn.received.body),
        tokenizer=turn.tokenizer,
        weight_version=turn.weight_version,
    )
