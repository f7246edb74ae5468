"""Bedrock: converse and converse-stream, and invoke with Anthropic's bodies; streams in AWS's binary frames."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import orjson

from stepwell.testing._aws_frames import MEDIA_TYPE, event_of
from stepwell.testing._dialect import Body, Conversation, Json, Received, Refused, Turn, count, objects
from stepwell.testing._script import Delivery
from stepwell.testing._wire import answer_of
from stepwell.testing._wire_anthropic import asked_from, events_from, message_from
from stepwell.testing._words import (
    assistant,
    blocks_of,
    function_tool,
    image_part,
    made_call,
    object_of,
    said,
    text_part,
    tool_result,
)

_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filtered",
}
_ERRORS = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


class BedrockConverse:
    """`POST …/model/<id>/converse` and `…/converse-stream`."""

    name = "bedrock.converse"
    paths = ("/model/{model:path}/converse", "/model/{model:path}/converse-stream")
    id_prefix = ""

    def read(self, received: Received) -> Conversation:
        body = received.body
        messages: list[Json] = []
        if system := body.get("system"):
            messages.append(said("system", _parts(system)))
        for message in objects(body, "messages", "role"):
            messages += _messages(message)
        specs = [tool["toolSpec"] for tool in (body.get("toolConfig") or {}).get("tools") or () if "toolSpec" in tool]
        return Conversation(
            messages,
            [function_tool(spec["name"], spec.get("description"), spec["inputSchema"]["json"]) for spec in specs],
            received.params["model"],
            received.path.endswith("-stream"),
            max_tokens=count(body.get("inferenceConfig") or {}, "maxTokens"),
        )

    def whole(self, turn: Turn) -> Body:
        answer = answer_of(turn.samples[0])
        content: list[Json] = [_thought(answer.reasoning)] if answer.reasoning else []
        content += [{"text": answer.content}] if answer.content else []
        content += [
            {"toolUse": {"toolUseId": call.id, "name": call.name, "input": object_of(call)}}
            for call in answer.tool_calls
        ]
        output = {"message": {"role": "assistant", "content": content}}
        return Body(
            [orjson.dumps({"output": output, "stopReason": _reason(turn), **_counted(turn)})], headers=_own(turn)
        )

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        events = [event_of(kind, orjson.dumps(event)) for kind, event in _events(turn, delivery)]
        return Body(events, MEDIA_TYPE, _own(turn))

    def error(self, status: int, message: str) -> Body:
        return _error(status, message)


class BedrockInvoke:
    """`POST …/model/<id>/invoke` and `…/invoke-with-response-stream`, of Anthropic's models."""

    name = "bedrock.invoke"
    paths = ("/model/{model:path}/invoke", "/model/{model:path}/invoke-with-response-stream")
    id_prefix = ""

    def read(self, received: Received) -> Conversation:
        if "anthropic_version" not in received.body:
            raise Refused(400, "the scripted server speaks Anthropic's protocol here: `anthropic_version` is required")
        stream = received.path.endswith("-stream")
        return asked_from(received.body, received.params["model"], stream=stream)

    def whole(self, turn: Turn) -> Body:
        return Body([orjson.dumps({**message_from(turn), "id": _message_id(turn)})], headers=_own(turn))

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        return Body([_chunk(turn, event) for event in events_from(turn, delivery)], MEDIA_TYPE, _own(turn))

    def error(self, status: int, message: str) -> Body:
        return _error(status, message)


def _messages(message: Json) -> Iterator[Json]:
    blocks = message.get("content") or []
    if message["role"] == "assistant":
        thoughts = [block["reasoningContent"] for block in blocks if "reasoningContent" in block]
        calls = [block["toolUse"] for block in blocks if "toolUse" in block]
        yield assistant(
            [block["text"] for block in blocks if "text" in block],
            [thought["reasoningText"]["text"] for thought in thoughts if "reasoningText" in thought],
            [made_call(call["toolUseId"], call["name"], call["input"]) for call in calls],
        )
        return
    for block in blocks:
        if result := block.get("toolResult"):
            yield tool_result(result["toolUseId"], _parts(result.get("content") or []))
    if parts := _parts(blocks):
        yield said(message["role"], parts)


def _parts(blocks: list[Json]) -> list[Json]:
    parts = []
    for block in blocks:
        if "text" in block:
            parts.append(text_part(block["text"]))
        elif "json" in block:
            parts.append(text_part(orjson.dumps(block["json"]).decode()))
        elif image := block.get("image"):
            parts.append(image_part(f"data:image/{image['format']};base64,{image['source'].get('bytes')}"))
    return parts


def _events(turn: Turn, delivery: Delivery) -> Iterator[tuple[str, Json]]:
    """Only a tool's block is announced by a start; text and thoughts begin with their first delta, as Bedrock has it."""
    yield "messageStart", {"role": "assistant"}
    sample = turn.samples[0]
    for index, (_, number, pieces) in enumerate(blocks_of(sample, delivery.chunk_tokens)):
        for piece in pieces:
            if piece.kind == "call":
                call = sample.tool_calls[number]
                start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
                yield "contentBlockStart", {"start": start, "contentBlockIndex": index}
                continue
            delta: Json = {"text": piece.text}
            if piece.kind == "reasoning":
                delta = {"reasoningContent": delta}
            elif piece.kind == "arguments":
                delta = {"toolUse": {"input": piece.text}}
            yield "contentBlockDelta", {"delta": delta, "contentBlockIndex": index}
        yield "contentBlockStop", {"contentBlockIndex": index}
    yield "messageStop", {"stopReason": _reason(turn)}
    yield "metadata", _counted(turn)


def _chunk(turn: Turn, event: Json) -> bytes:
    """An event of Anthropic's inside a frame; the last one brings Bedrock's own counters."""
    if event["type"] == "message_start":
        event = {**event, "message": {**event["message"], "id": _message_id(turn)}}
    if event["type"] == "message_stop":
        metrics = {"inputTokenCount": len(turn.prompt_ids), "outputTokenCount": turn.generated, "invocationLatency": 5}
        event = {**event, "amazon-bedrock-invocationMetrics": {**metrics, "firstByteLatency": 1}}
    encoded = base64.b64encode(orjson.dumps(event)).decode()
    return event_of("chunk", orjson.dumps({"bytes": encoded}))


def _message_id(turn: Turn) -> str:
    return f"msg_bdrk_{turn.id}"


def _thought(text: str) -> Json:
    return {"reasoningContent": {"reasoningText": {"text": text}}}


def _reason(turn: Turn) -> str:
    reason = turn.samples[0].finish_reason
    return _REASONS.get(reason, reason)


def _counted(turn: Turn) -> Json:
    prompt = len(turn.prompt_ids)
    usage = {"inputTokens": prompt, "outputTokens": turn.generated, "totalTokens": prompt + turn.generated}
    return {"usage": usage, "metrics": {"latencyMs": 5}}


def _own(turn: Turn) -> dict[str, str]:
    return {"x-amzn-requestid": turn.id}


def _error(status: int, message: str) -> Body:
    kind = _ERRORS.get(status, "InternalServerException" if status >= 500 else "ValidationException")
    return Body([orjson.dumps({"message": message})], headers={"x-amzn-errortype": kind})
