"""OpenAI's completions from before chat, in the shape of vLLM: plain and as server-sent events.

A prompt is a text or token ids, one of them; a tool call in the script's answer shows as the markup that was sampled.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

import orjson

from stepwell.testing._dialect import Body, Conversation, Json, Received, Refused, Turn, count
from stepwell.testing._sampling import Sample
from stepwell.testing._script import Delivery
from stepwell.testing._stream import DONE
from stepwell.testing._tokenizer import ByteTokenizer
from stepwell.testing._wire import error_body
from stepwell.testing._words import sse

_MAX_CHOICES = 128


class OpenAICompletions:
    """`POST …/completions`, where it is not chat's."""

    name = "openai.completions"
    paths = ("/completions",)
    id_prefix = "cmpl-"

    def __init__(self) -> None:
        self._tokenizer = ByteTokenizer()

    def read(self, received: Received) -> Conversation:
        body = received.body
        prompt = _prompt(body.get("prompt"), self._tokenizer)
        return Conversation(
            messages=[{"role": "user", "content": prompt}],
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            n=count(body, "n", most=_MAX_CHOICES) or 1,
            max_tokens=count(body, "max_tokens"),
            prompt=prompt,
        )

    def whole(self, turn: Turn) -> Body:
        choices = [
            _choice(turn, index, sample, sample.text, 0, len(sample.ids), whole=True)
            for index, sample in enumerate(turn.samples)
        ]
        return Body([orjson.dumps({**_head(turn), "choices": choices, "usage": _usage(turn)})])

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        chunks = [
            {**_head(turn), "choices": [choice]}
            for index, sample in enumerate(turn.samples)
            for choice in _choices(turn, index, sample, delivery)
        ]
        if (turn.received.body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**_head(turn), "choices": [], "usage": _usage(turn)})
        return Body([*(sse(orjson.dumps(chunk)) for chunk in chunks), DONE], "text/event-stream; charset=utf-8")

    def error(self, status: int, message: str) -> Body:
        return Body([error_body(status, message)])


def _prompt(prompt: Any, tokenizer: ByteTokenizer) -> str:
    """The text of a prompt: text, token ids, or a list with one of either. Raises `Refused` for what it cannot be."""
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and all(isinstance(i, int) and 0 <= i < tokenizer.vocab_size for i in prompt):
        return tokenizer.decode(prompt)
    raise Refused(400, "`prompt` must be one text or one list of token ids")


def _choices(turn: Turn, index: int, sample: Sample, delivery: Delivery) -> Iterator[Json]:
    """Choices of some tokens each; a character that is not whole yet waits for the next."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    taken = 0
    for start in range(0, max(len(sample.ids), 1), delivery.chunk_tokens):
        stop = min(start + delivery.chunk_tokens, len(sample.ids))
        end, last = (sample.bounds[stop - 1] if stop else 0), stop == len(sample.ids)
        text = decoder.decode(sample.data[taken:end], final=last)
        taken = end
        yield _choice(turn, index, sample, text, start, stop, whole=last)


def _choice(turn: Turn, index: int, sample: Sample, text: str, start: int, stop: int, *, whole: bool) -> Json:
    body = turn.received.body
    choice: Json = {
        "index": index,
        "text": text,
        "logprobs": None if body.get("logprobs") is None else _logprobs(turn, sample, start, stop),
        "finish_reason": ("length" if sample.finish_reason == "length" else "stop") if whole else None,
    }
    if body.get("return_token_ids"):
        choice["token_ids"] = sample.ids[start:stop]
        if start == 0:
            choice["prompt_token_ids"] = turn.prompt_ids
    if whole and turn.weight_version is not None and body.get("return_weight_versions"):
        choice["weight_versions"] = [{"version": turn.weight_version, "start": 0, "end": len(sample.ids)}]
    return choice


def _logprobs(turn: Turn, sample: Sample, start: int, stop: int) -> Json:
    texts = [turn.tokenizer.token_texts[token] for token in sample.ids[start:stop]]
    values = sample.logprobs[start:stop]
    tops = [{text: value} for text, value in zip(texts, values, strict=True)]
    offsets = [sum(map(len, texts[:place])) for place in range(len(texts))]
    return {"tokens": texts, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}


def _head(turn: Turn) -> Json:
    return {"id": turn.id, "object": "text_completion", "created": turn.created, "model": turn.model}


def _usage(turn: Turn) -> Json:
    prompt = len(turn.prompt_ids)
    return {"prompt_tokens": prompt, "total_tokens": prompt + turn.generated, "completion_tokens": turn.generated}
