"""From a scripted reply to what an engine samples: token ids, log-probabilities, and which bytes mean what."""

from __future__ import annotations

import hashlib
import uuid
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from stepwell.testing._script import Reply, ToolCall
from stepwell.testing._tokenizer import ByteTokenizer

Kind = Literal["markup", "reasoning", "content", "name", "arguments"]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the response with one meaning: byte offsets into it, and the index of the tool call it is part of."""

    kind: Kind
    start: int
    stop: int
    call: int = -1


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled response. `ids` and `logprobs` are equal in length; the end-of-turn token is the last, unless cut."""

    ids: list[int]
    logprobs: list[float]
    """Each representable in float32, in (-3, 0]."""
    finish_reason: str
    data: bytes
    """The response's bytes, tool-call markup included, the end-of-turn token not."""
    bounds: list[int]
    """Byte offset at which each token ends; the end-of-turn token has no bytes of `data`."""
    spans: list[Span]
    tool_calls: list[ToolCall]
    """As scripted, with ids made up for those that had none."""
    whole: bool
    """False when `max_tokens` cut into the text or the markup."""

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


def body_parts(reply: Reply) -> Iterator[tuple[Kind, str, int]]:
    """The parts of a response, in the words of the chat template's `assistant` macro."""
    if reply.reasoning:
        yield "markup", "<think>\n", -1
        yield "reasoning", reply.reasoning, -1
        yield "markup", "\n</think>\n\n", -1
    if reply.content:
        yield "content", reply.content, -1
    for index, call in enumerate(reply.tool_calls):
        break_before = "\n" if reply.content or index else ""
        yield "markup", f'{break_before}<tool_call>\n{{"name": "', index
        yield "name", call.name, index
        yield "markup", '", "arguments": ', index
        yield "arguments", call.arguments, index
        yield "markup", "}\n</tool_call>", index


def sample(reply: Reply, prompt_ids: Sequence[int], tokenizer: ByteTokenizer, max_tokens: int | None) -> Sample:
    """Sample a scripted reply after a prompt, stopped at `max_tokens` (finish reason `length`)."""
    parts = list(body_parts(reply))
    ids = tokenizer.encode("".join([text for _, text, _ in parts]))
    finish_reason = reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
    end_of_turn = finish_reason != "length"
    if max_tokens is not None and len(ids) + end_of_turn > max_tokens:
        ids, end_of_turn, finish_reason = ids[:max_tokens], False, "length"
    data = tokenizer.decode_bytes(ids)
    whole = len(data) == sum(len(text.encode()) for _, text, _ in parts)
    bounds = list(accumulate([len(tokenizer.token_bytes[token]) for token in ids]))
    if end_of_turn:
        ids.append(tokenizer.end_of_turn)
        bounds.append(len(data))
    calls = [ToolCall(c.name, c.arguments, c.id or f"chatcmpl-tool-{uuid.uuid4().hex}") for c in reply.tool_calls]
    spans = _spans(parts, len(data))
    return Sample(ids, logprobs_of(prompt_ids, ids), finish_reason, data, bounds, spans, calls, whole)


def _spans(parts: Sequence[tuple[Kind, str, int]], limit: int) -> list[Span]:
    spans, start = [], 0
    for kind, text, call in parts:
        stop = start + len(text.encode())
        if start < limit or start == stop == limit:
            spans.append(Span(kind, start, min(stop, limit), call))
        start = stop
    return spans


def logprobs_of(prompt_ids: Sequence[int], ids: Sequence[int]) -> list[float]:
    """Log-probabilities that depend on the prompt, the response and the position only.

    Derived from a hash, so that the same sample always has the same values and different rollouts differ; skewed towards
    0, as those of a confident model are.
    """
    digest = hashlib.shake_128(array("I", prompt_ids).tobytes() + b"|" + array("I", ids).tobytes())
    draws = array("I", digest.digest(4 * len(ids)))
    return array("f", [0.0 - 2.999 * (draw / 2**32) ** 3 for draw in draws]).tolist()
