"""Anthropic, Gemini, and Bedrock's two APIs."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from benchmarks.traffic._conversation import (
    CALL,
    MODEL,
    PLAIN,
    PROMPT_TOKENS,
    SYSTEM,
    TASK,
    TOOLS,
    TURNS,
    Json,
    dumps,
    event,
)

from stepwell.testing._aws_frames import MEDIA_TYPE, frame_of


class Anthropic:
    """Messages."""

    name = "anthropic.messages"
    path = "/v1/messages"
    streamed_type = "text/event-stream; charset=utf-8"

    def request(self, stream: bool) -> Json:
        mark = {"cache_control": {"type": "ephemeral"}}
        messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": TASK, **mark}]}]
        for turn in TURNS:
            call = {"type": "tool_use", "id": turn.id, "name": turn.name, "input": turn.arguments}
            messages.append({"role": "assistant", "content": [{"type": "text", "text": turn.text}, call]})
            result = {"type": "tool_result", "tool_use_id": turn.id, "content": [{"type": "text", "text": turn.result}]}
            messages.append({"role": "user", "content": [result]})
        named = [{"name": t["name"], "description": t["description"], "input_schema": t["parameters"]} for t in TOOLS]
        asked = {"model": MODEL, "max_tokens": 4096, "system": [{"type": "text", "text": SYSTEM, **mark}]}
        return {**asked, "messages": messages, "tools": named, **({"stream": True} if stream else {})}

    def _message(self, content: list[Json], reason: str | None) -> Json:
        head = {"id": "msg_0123456789abcdef", "type": "message", "role": "assistant", "model": MODEL}
        counts = {"input_tokens": PROMPT_TOKENS, "cache_read_input_tokens": 0, "output_tokens": 800}
        return {**head, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": counts}

    def plain(self) -> bytes:
        call = {"type": "tool_use", "id": CALL.id, "name": CALL.name, "input": CALL.arguments}
        return dumps(self._message([{"type": "text", "text": PLAIN}, call], "tool_use"))

    def events(self, place: int, text: str) -> list[Json]:  # noqa: ARG002
        """The delta as the events that Bedrock packs, too."""
        return [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}]

    def opening_events(self) -> list[Json]:
        block = {"type": "text", "text": ""}
        return [
            {"type": "message_start", "message": self._message([], None)},
            {"type": "content_block_start", "index": 0, "content_block": block},
        ]

    def call_events(self, pieces: Iterable[str]) -> list[Json]:
        block = {"type": "tool_use", "id": CALL.id, "name": CALL.name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return [
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": block},
            *({"type": "content_block_delta", "index": 1, "delta": delta} for delta in deltas),
        ]

    def closing_events(self) -> list[Json]:
        ended = {"stop_reason": "tool_use", "stop_sequence": None}
        return [
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 800}},
            {"type": "message_stop"},
        ]

    def _written(self, events: list[Json]) -> bytes:
        return b"".join(event(value, value["type"]) for value in events)

    def opening(self) -> bytes:
        return self._written(self.opening_events())

    def said(self, place: int, text: str) -> bytes:
        return self._written(self.events(place, text))

    def lean(self, text: str) -> bytes:
        return event(self.events(0, text)[0])

    def called(self, pieces: Iterable[str]) -> bytes:
        return self._written(self.call_events(pieces))

    def closing(self, deltas: int) -> bytes:  # noqa: ARG002
        return self._written(self.closing_events())


class Gemini:
    """generateContent, and its stream as events."""

    name = "gemini"
    path = f"/v1beta/models/{MODEL}:streamGenerateContent"
    streamed_type = "text/event-stream"

    def request(self, stream: bool) -> Json:  # noqa: ARG002
        contents: list[Json] = [{"role": "user", "parts": [{"text": TASK}]}]
        for turn in TURNS:
            call = {"functionCall": {"name": turn.name, "args": turn.arguments}}
            answered = {"functionResponse": {"name": turn.name, "response": {"output": turn.result}}}
            contents.append({"role": "model", "parts": [{"text": turn.text}, call]})
            contents.append({"role": "user", "parts": [answered]})
        steering = {"temperature": 1.0, "maxOutputTokens": 4096}
        system = {"parts": [{"text": SYSTEM}]}
        declared = [{"functionDeclarations": TOOLS}]
        return {"contents": contents, "systemInstruction": system, "tools": declared, "generationConfig": steering}

    def _chunk(self, parts: list[Json], **candidate: Any) -> Json:
        counts = {
            "promptTokenCount": PROMPT_TOKENS,
            "candidatesTokenCount": 800,
            "totalTokenCount": PROMPT_TOKENS + 800,
        }
        found = {"content": {"role": "model", "parts": parts}, "index": 0, **candidate}
        return {"candidates": [found], "usageMetadata": counts, "modelVersion": MODEL, "responseId": "0123456789abcdef"}

    def _call(self) -> Json:
        return {"functionCall": {"name": CALL.name, "args": CALL.arguments}}

    def plain(self) -> bytes:
        return dumps(self._chunk([{"text": PLAIN}, self._call()], finishReason="STOP"))

    def opening(self) -> bytes:
        return b""

    def said(self, place: int, text: str) -> bytes:  # noqa: ARG002
        return event(self._chunk([{"text": text}]), end=b"\r\n\r\n")

    def lean(self, text: str) -> bytes:
        return event({"candidates": [{"content": {"parts": [{"text": text}]}}]}, end=b"\r\n\r\n")

    def called(self, pieces: Iterable[str]) -> bytes:  # noqa: ARG002 - a call comes whole
        return event(self._chunk([self._call()]), end=b"\r\n\r\n")

    def closing(self, deltas: int) -> bytes:  # noqa: ARG002
        return event(self._chunk([{"text": ""}], finishReason="STOP"), end=b"\r\n\r\n")


def _frame(kind: str, value: object, lean: bool = False) -> bytes:
    """One frame of an AWS event stream; `lean`: without the content type."""
    named = {":event-type": kind, ":message-type": "event", **({} if lean else {":content-type": "application/json"})}
    return frame_of(named, dumps(value))


class Converse:
    """Bedrock's converse-stream."""

    name = "bedrock.converse"
    path = f"/model/{MODEL}/converse-stream"
    streamed_type = MEDIA_TYPE
    _counts = {"inputTokens": PROMPT_TOKENS, "outputTokens": 800, "totalTokens": PROMPT_TOKENS + 800}  # noqa: RUF012

    def request(self, stream: bool) -> Json:  # noqa: ARG002
        messages: list[Json] = [{"role": "user", "content": [{"text": TASK}]}]
        for turn in TURNS:
            call = {"toolUse": {"toolUseId": turn.id, "name": turn.name, "input": turn.arguments}}
            result = {"toolUseId": turn.id, "content": [{"text": turn.result}], "status": "success"}
            messages.append({"role": "assistant", "content": [{"text": turn.text}, call]})
            messages.append({"role": "user", "content": [{"toolResult": result}]})
        tools = [
            {"toolSpec": {"name": t["name"], "description": t["description"], "inputSchema": {"json": t["parameters"]}}}
            for t in TOOLS
        ]
        steering = {"maxTokens": 4096, "temperature": 1.0}
        asked = {"messages": messages, "system": [{"text": SYSTEM}], "inferenceConfig": steering}
        return {**asked, "toolConfig": {"tools": tools}}

    def plain(self) -> bytes:
        call = {"toolUse": {"toolUseId": CALL.id, "name": CALL.name, "input": CALL.arguments}}
        message = {"role": "assistant", "content": [{"text": PLAIN}, call]}
        ended = {"stopReason": "tool_use", "usage": self._counts, "metrics": {"latencyMs": 1200}}
        return dumps({"output": {"message": message}, **ended})

    def opening(self) -> bytes:
        return _frame("messageStart", {"p": "abcdefgh", "role": "assistant"})

    def said(self, place: int, text: str) -> bytes:  # noqa: ARG002
        return _frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}, "p": "abcdefghijkl"})

    def lean(self, text: str) -> bytes:
        return _frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}, lean=True)

    def called(self, pieces: Iterable[str]) -> bytes:
        start = {"toolUse": {"toolUseId": CALL.id, "name": CALL.name}}
        deltas = [{"contentBlockIndex": 1, "delta": {"toolUse": {"input": piece}}, "p": "abcdefg"} for piece in pieces]
        return b"".join(
            [
                _frame("contentBlockStop", {"contentBlockIndex": 0}),
                _frame("contentBlockStart", {"contentBlockIndex": 1, "start": start}),
                *(_frame("contentBlockDelta", delta) for delta in deltas),
                _frame("contentBlockStop", {"contentBlockIndex": 1}),
            ]
        )

    def closing(self, deltas: int) -> bytes:  # noqa: ARG002
        ended = _frame("messageStop", {"stopReason": "tool_use"})
        return ended + _frame("metadata", {"usage": self._counts, "metrics": {"latencyMs": 1200}})


class Invoke:
    """Bedrock's invoke of a model of Anthropic's."""

    name = "bedrock.invoke"
    path = "/model/anthropic.bench-1/invoke-with-response-stream"
    streamed_type = MEDIA_TYPE

    def __init__(self) -> None:
        self._inner = Anthropic()

    def request(self, stream: bool) -> Json:  # noqa: ARG002
        asked = {name: value for name, value in self._inner.request(False).items() if name != "model"}
        return {"anthropic_version": "bedrock-2023-05-31", **asked}

    def plain(self) -> bytes:
        return self._inner.plain()

    def _packed(self, events: list[Json], lean: bool = False) -> bytes:
        padding = {} if lean else {"p": "abcdefghijkl"}
        packed = [{"bytes": base64.b64encode(dumps(value)).decode(), **padding} for value in events]
        return b"".join(_frame("chunk", value, lean) for value in packed)

    def opening(self) -> bytes:
        return self._packed(self._inner.opening_events())

    def said(self, place: int, text: str) -> bytes:
        return self._packed(self._inner.events(place, text))

    def lean(self, text: str) -> bytes:
        return self._packed(self._inner.events(0, text), lean=True)

    def called(self, pieces: Iterable[str]) -> bytes:
        return self._packed(self._inner.call_events(pieces))

    def closing(self, deltas: int) -> bytes:  # noqa: ARG002
        return self._packed(self._inner.closing_events())
