"""Gemini's generateContent and streamGenerateContent: plain, as server-sent events, and as a JSON array that grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from stepwell.testing._dialect import Body, Conversation, Json, Received, Turn, count, objects
from stepwell.testing._sampling import Sample
from stepwell.testing._script import Delivery
from stepwell.testing._wire import answer_of
from stepwell.testing._words import (
    assistant,
    function_tool,
    image_part,
    made_call,
    object_of,
    pieces_of,
    said,
    sse,
    text_part,
    tool_result,
)

_REASONS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Gemini:
    """`POST …/models/<model>:generateContent` and `:streamGenerateContent`, of Google AI and of Vertex AI."""

    name = "gemini"
    paths = ("/{collection}/{model}:generateContent", "/{collection}/{model}:streamGenerateContent")
    id_prefix = ""

    def read(self, received: Received) -> Conversation:
        body = received.body
        messages: list[Json] = []
        if system := _field(body, "systemInstruction", "system_instruction"):
            messages.append(said("system", _parts(system)))
        for content in objects(body, "contents"):
            messages += _messages(content, len(messages))
        config = _field(body, "generationConfig", "generation_config") or {}
        return Conversation(
            messages,
            list(_tools(body)),
            received.params["model"],
            received.path.endswith(":streamGenerateContent"),
            n=count(config, "candidateCount") or 1,
            max_tokens=count(config, "maxOutputTokens"),
        )

    def whole(self, turn: Turn) -> Body:
        candidates = [_candidate(index, _parts_of(sample), sample) for index, sample in enumerate(turn.samples)]
        return Body([orjson.dumps({"candidates": candidates, **_root(turn)})])

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        chunks = [orjson.dumps(chunk) for chunk in _chunks(turn, delivery)]
        if turn.received.query.get("alt") == "sse":
            return Body([sse(chunk) for chunk in chunks], "text/event-stream")
        return Body([b"[" + chunks[0], *(b",\r\n" + chunk for chunk in chunks[1:]), b"]"])

    def error(self, status: int, message: str) -> Body:
        word = _STATUSES.get(status, "UNKNOWN")
        return Body([orjson.dumps({"error": {"code": status, "message": message, "status": word}})])


def _field(body: Mapping[str, Any], *names: str) -> Any:
    """A field that protobuf lets one spell in either way."""
    return next((body[name] for name in names if body.get(name) is not None), None)


def _messages(content: Json, place: int) -> Iterator[Json]:
    parts = content.get("parts") or []
    if content.get("role") == "model":
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        yield assistant(
            [part["text"] for part in parts if part.get("text") and not part.get("thought")],
            [part["text"] for part in parts if part.get("text") and part.get("thought")],
            [
                made_call(c.get("id") or f"{c['name']}-{place}-{i}", c["name"], c.get("args"))
                for i, c in enumerate(calls)
            ],
        )
        return
    for part in parts:
        if result := part.get("functionResponse"):
            yield tool_result(result.get("id") or result["name"], result.get("response"))
    if spoken := _parts(content):
        yield said("user", spoken)


def _parts(content: Json) -> list[Json]:
    parts = []
    for part in content.get("parts") or []:
        if "text" in part:
            parts.append(text_part(part["text"]))
        elif blob := _field(part, "inlineData", "inline_data"):
            kind = _field(blob, "mimeType", "mime_type")
            parts.append(image_part(f"data:{kind};base64,{blob.get('data')}"))
    return parts


def _tools(body: Json) -> Iterator[Json]:
    for tool in body.get("tools") or ():
        for declared in _field(tool, "functionDeclarations", "function_declarations") or ():
            schema = _field(declared, "parametersJsonSchema", "parameters")
            yield function_tool(declared.get("name"), declared.get("description"), schema)


def _parts_of(sample: Sample) -> list[Json]:
    answer = answer_of(sample)
    parts: list[Json] = [{"text": answer.reasoning, "thought": True}] if answer.reasoning else []
    parts += [{"text": answer.content}] if answer.content else []
    return parts + [_call_part(sample, index) for index in range(len(answer.tool_calls))]


def _call_part(sample: Sample, index: int) -> Json:
    call = sample.tool_calls[index]
    return {"functionCall": {"id": call.id, "name": call.name, "args": object_of(call)}}


def _chunks(turn: Turn, delivery: Delivery) -> Iterator[Json]:
    """Answers that add up: some text each, a call whole in one. The last ones hold the reasons, and each its counters so far."""
    root = _root(turn)
    for index, sample in enumerate(turn.samples):
        for piece in pieces_of(sample, delivery.chunk_tokens):
            if piece.kind in ("reasoning", "content"):
                part: Json = {"text": piece.text}
                thought = {"thought": True} if piece.kind == "reasoning" else {}
                yield {"candidates": [_candidate(index, [part | thought])], **root}
        calls = sample.tool_calls if sample.whole else []
        for number in range(len(calls)):
            yield {"candidates": [_candidate(index, [_call_part(sample, number)])], **root}
        yield {"candidates": [_candidate(index, [{"text": ""}], sample)], **root}


def _candidate(index: int, parts: list[Json], ended: Sample | None = None) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": index}
    if ended is not None:
        candidate["finishReason"] = _REASONS.get(ended.finish_reason, ended.finish_reason)
    return candidate


def _root(turn: Turn) -> Json:
    prompt = len(turn.prompt_ids)
    counters = {"promptTokenCount": prompt, "candidatesTokenCount": turn.generated}
    counters["totalTokenCount"] = prompt + turn.generated
    return {"usageMetadata": counters, "modelVersion": turn.model, "responseId": turn.id}
