"""The same reply as an event stream: `chat.completion.chunk` objects, as vLLM cuts them."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import zip_longest

import orjson

from stepwell.testing._sampling import Sample, Span
from stepwell.testing._script import Delivery
from stepwell.testing._wire import Completion, Json, logprobs_json

DONE = b"data: [DONE]\n\n"


def stream_events(completion: Completion, delivery: Delivery) -> list[bytes]:
    """The events of a streamed reply: a role chunk for each choice, content, usage if asked for, `[DONE]`.

    `prompt_token_ids` are on the role chunks, `token_ids` on those that follow, `weight_versions` on the last.
    """
    head: Json = {
        "id": completion.id,
        "object": "chat.completion.chunk",
        "created": completion.created,
        "model": completion.model,
    }
    root = {"prompt_token_ids": completion.prompt_ids} if completion.asked.token_ids else {}
    chunks: list[Json] = []
    for index in range(len(completion.samples)):
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        chunks.append({**head, "choices": [choice], **root})
    rows = [_choices(completion, index, sample, delivery) for index, sample in enumerate(completion.samples)]
    # An engine decodes the choices of a request side by side.
    for row in zip_longest(*rows):
        chunks += [{**head, "choices": [choice]} for choice in row if choice is not None]
    if completion.asked.include_usage:
        chunks.append({**head, "choices": [], "usage": completion.usage()})
    return [b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks] + [DONE]


def _choices(completion: Completion, index: int, sample: Sample, delivery: Delivery) -> Iterator[Json]:
    """The choice objects of one sample, some tokens each; the last carries the finish reason."""
    asked = completion.asked
    deltas = Deltas(sample)
    start = 0
    while True:
        stop = min(start + delivery.chunk_tokens, len(sample.ids))
        last = stop == len(sample.ids)
        delta = deltas.take(sample.bounds[stop - 1] if stop else 0)
        # Markup says nothing to a client, so engines send its chunks only for the ids and log-probabilities they carry.
        bare = not delta and not last
        if not bare or ((asked.token_ids or asked.logprobs) and not delivery.swallow_markup):
            choice: Json = {
                "index": index,
                "delta": delta,
                "logprobs": logprobs_json(completion, sample, start, stop),
                "finish_reason": sample.finish_reason if last else None,
            }
            if asked.token_ids:
                choice |= {"stop_reason": None, "token_ids": sample.ids[start:stop]}
            versions = completion.weight_versions(sample) if last else None
            yield choice if versions is None else choice | {"weight_versions": versions}
        if last:
            return
        start = stop


class Deltas:
    """Cuts a sample's spans into deltas, holding back the bytes of a character until it is whole."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._pending = list(reversed(sample.spans))
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._taken = 0

    def take(self, stop: int) -> Json:
        """The delta for the bytes up to `stop`, empty when they are markup only."""
        delta: Json = {}
        while self._pending:
            span = self._pending[-1]
            if span.start >= stop and span.stop > stop:
                break
            begin, end = max(span.start, self._taken), min(span.stop, stop)
            complete = span.stop <= stop
            self._add(delta, span, begin, end, complete=complete)
            if not complete:
                break
            self._pending.pop()
            self._decoder.reset()
        self._taken = stop
        return delta

    def _add(self, delta: Json, span: Span, begin: int, end: int, *, complete: bool) -> None:
        if span.kind in ("content", "reasoning"):
            # An empty text is sent too: its tokens are part of a character, the rest of which is still to come.
            delta[span.kind] = delta.get(span.kind, "") + self._decoder.decode(self._sample.data[begin:end])
        elif span.kind == "name" and complete:
            call = self._sample.tool_calls[span.call]
            function = {"name": call.name, "arguments": ""}
            _add_call(delta, {"index": span.call, "id": call.id, "type": "function", "function": function})
        elif span.kind == "arguments":
            fragment = self._decoder.decode(self._sample.data[begin:end])
            if fragment:
                _add_call(delta, {"index": span.call, "function": {"arguments": fragment}})


def _add_call(delta: Json, call: Json) -> None:
    """Put a tool-call delta beside what the delta has; one index appears once."""
    delta.setdefault("content", None)
    calls = delta.setdefault("tool_calls", [])
    if calls and calls[-1]["index"] == call["index"]:
        calls[-1]["function"]["arguments"] += call["function"]["arguments"]
    else:
        calls.append(call)
