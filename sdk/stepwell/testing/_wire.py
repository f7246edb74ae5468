"""The JSON of the chat completions dialect, in the shape of vLLM: whole replies, errors, models, and what both share."""

from __future__ import annotations

import codecs
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from stepwell.testing._sampling import Sample, Span
from stepwell.testing._script import ToolCall
from stepwell.testing._tokenizer import ByteTokenizer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks of its reply. Fields that OpenAI's own API lacks are sent only when asked for, as by vLLM."""

    stream: bool
    include_usage: bool
    logprobs: bool
    top_logprobs: int
    token_ids: bool
    tokens_as_ids: bool
    weight_versions: bool

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Asked:
        return cls(
            stream=bool(body.get("stream")),
            include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
            logprobs=bool(body.get("logprobs")),
            top_logprobs=int(body.get("top_logprobs") or 0),
            token_ids=bool(body.get("return_token_ids")),
            tokens_as_ids=bool(body.get("return_tokens_as_token_ids")),
            weight_versions=bool(body.get("return_weight_versions")),
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """All that a reply is written from."""

    id: str
    created: int
    model: str
    prompt_ids: list[int]
    samples: Sequence[Sample]
    asked: Asked
    tokenizer: ByteTokenizer
    weight_version: str | None

    def usage(self) -> Json:
        generated = sum(len(sample.ids) for sample in self.samples)
        prompt = len(self.prompt_ids)
        return {"prompt_tokens": prompt, "total_tokens": prompt + generated, "completion_tokens": generated}

    def weight_versions(self, sample: Sample) -> list[Json] | None:
        """The weights that sampled each stretch of tokens: here one version for all."""
        if self.weight_version is None or not self.asked.weight_versions:
            return None
        return [{"version": self.weight_version, "start": 0, "end": len(sample.ids)}]


def whole_reply(completion: Completion) -> bytes:
    """A `chat.completion` object."""
    reply: Json = {
        "id": completion.id,
        "object": "chat.completion",
        "created": completion.created,
        "model": completion.model,
        "choices": [_choice(completion, index, sample) for index, sample in enumerate(completion.samples)],
        "service_tier": None,
        "system_fingerprint": None,
        "usage": {**completion.usage(), "prompt_tokens_details": None},
    }
    if completion.asked.token_ids:
        reply |= {"prompt_logprobs": None, "prompt_token_ids": completion.prompt_ids, "kv_transfer_params": None}
    return orjson.dumps(reply)


def _choice(completion: Completion, index: int, sample: Sample) -> Json:
    answer = answer_of(sample)
    message: Json = {"role": "assistant", "content": answer.content, "refusal": None}
    if answer.reasoning is not None:
        message["reasoning"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.tool_calls
        ]
    choice: Json = {
        "index": index,
        "message": message,
        "logprobs": logprobs_json(completion, sample, 0, len(sample.ids)),
        "finish_reason": sample.finish_reason,
    }
    if completion.asked.token_ids:
        choice |= {"stop_reason": None, "token_ids": sample.ids}
    versions = completion.weight_versions(sample)
    return choice if versions is None else choice | {"weight_versions": versions}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client is told of a sample."""

    content: str | None
    reasoning: str | None
    tool_calls: list[ToolCall]


def answer_of(sample: Sample) -> Answer:
    """Parse a sample as an engine does: a tool call cut short is no tool call, its markup shows as text."""
    texts = {span.kind: _text(sample, span) for span in sample.spans if span.kind in ("reasoning", "content")}
    reasoning, content, tool_calls = texts.get("reasoning"), texts.get("content"), sample.tool_calls
    if tool_calls and not sample.whole:
        end = len(sample.data)
        shown = next((span.start for span in sample.spans if span.kind == "content" or span.call >= 0), end)
        content, tool_calls = _text(sample, Span("content", shown, end)) or None, []
    if content is None and reasoning is None and not tool_calls:
        content = ""
    return Answer(content, reasoning, tool_calls)


def _text(sample: Sample, span: Span) -> str:
    """A span's text, without the part of a character that a cut may have left at its end."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(sample.data[span.start : span.stop])


def logprobs_json(completion: Completion, sample: Sample, start: int, stop: int) -> Json | None:
    """The `logprobs` object of tokens [start, stop), one entry for each; None when not asked for."""
    if not completion.asked.logprobs:
        return None
    asked = completion.asked
    entries = []
    for token, logprob in zip(sample.ids[start:stop], sample.logprobs[start:stop], strict=True):
        entry = _token_json(completion, token, logprob)
        entry["top_logprobs"] = _alternatives(completion, token, logprob) if asked.top_logprobs else []
        entries.append(entry)
    return {"content": entries}


def _token_json(completion: Completion, token: int, logprob: float) -> Json:
    tokenizer = completion.tokenizer
    text = f"token_id:{token}" if completion.asked.tokens_as_ids else tokenizer.token_texts[token]
    return {"token": text, "logprob": logprob, "bytes": list(tokenizer.token_bytes[token])}


def _alternatives(completion: Completion, token: int, logprob: float) -> list[Json]:
    """The most likely tokens: the sampled one, and others that share out part of the probability that is left."""
    left = max(-math.expm1(logprob), 1e-9)
    vocabulary = completion.tokenizer.vocab_size
    tops = [_token_json(completion, token, logprob)]
    for rank in range(1, completion.asked.top_logprobs):
        tops.append(_token_json(completion, (token + rank) % vocabulary, math.log(left) - rank * math.log(2)))
    return sorted(tops, key=lambda top: -float(top["logprob"]))


def error_body(status: int, message: str) -> bytes:
    """An error in OpenAI's shape."""
    names = {
        400: "invalid_request_error",
        401: "authentication_error",
        413: "invalid_request_error",
        429: "rate_limit_error",
    }
    kind = names.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}})


def models_body(models: Sequence[str], created: int) -> bytes:
    """The list that `GET /v1/models` answers."""
    data = [{"id": name, "object": "model", "created": created, "owned_by": "stepwell"} for name in models]
    return orjson.dumps({"object": "list", "data": data})
