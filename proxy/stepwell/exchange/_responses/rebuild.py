"""Canonical messages back to items: the bodies of the request and of the answer that a step was parsed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stepwell.exchange._canonical import Message, Part
from stepwell.exchange._responses.content import ASKED, SAID, block_of
from stepwell.exchange._responses.echo import echo
from stepwell.exchange._responses.items import CALLS, item_tools
from stepwell.exchange._responses.tokens import FIELDS, with_ids
from stepwell.sdk.records import Step


def request_body(step: Step) -> dict[str, Any]:
    """The request, with its fields where the plain (HTTP) form has them."""
    messages = step.messages or []
    body: dict[str, Any] = {"model": step.model_asked} if step.model_asked else {}
    body.update({**_extra(step, "request"), **(step.sampling or {})})
    kind, _, id_ = (step.continues or "").partition(":")
    if kind == "response":
        body["previous_response_id"] = id_
    if tools := _own_tools(step):
        body["tools"] = tools
    fields = {field: message for message in messages if (field := _field(message))}
    for field, message in fields.items():
        body[field] = "".join(part["text"] for part in message["content"])
    if "input" not in fields:
        body["input"] = [item for message in messages if not _field(message) for item in _items(message)]
    return body


def answer_body(steps: Sequence[Step]) -> dict[str, Any]:
    """The answer, as a plain response."""
    step = steps[0]
    extra = _extra(step, "response")
    asked = request_body(step)
    body: dict[str, Any] = {"id": step.response_id, "object": "response", "model": step.model}
    body["status"] = step.finish_reason
    body["error"] = (step.extra or {}).get("error")
    body["output"] = list(_said((step.response or {}).get("content", [])))
    body["usage"] = step.usage
    body.update({name: echo(asked[name], added) for name, added in extra.pop("echoed", {}).items()})
    body.update(extra)
    for field, ids in zip(FIELDS, (step.prompt_ids, step.response_ids), strict=True):
        if ids is not None and isinstance(body.get(field), list):
            body[field] = with_ids(body[field], ids)
    return {key: value for key, value in body.items() if value is not None}


def _extra(step: Step, name: str) -> dict[str, Any]:
    return dict((step.extra or {}).get(name, {}))


def _own_tools(step: Step) -> list[Any]:
    """The request's own tools, without those that an item of its input brought."""
    tools = list(step.tools or [])
    return tools[: len(tools) - len(item_tools(step.messages or []))]


def _field(message: Message) -> str | None:
    """The request's field that holds this message as plain text."""
    return (message.get("extra") or {}).get("field")


def _items(message: Message) -> Iterator[dict[str, Any]]:
    extra = message.get("extra") or {}
    if message["role"] == "assistant":
        yield from _said(message["content"])
    elif extra.get("item") is True:
        yield from (dict(part["extra"]) for part in message["content"])
    elif any(part["type"] == "tool_result" for part in message["content"]):
        yield from (_result(part) for part in message["content"])
    else:
        yield {**extra, "role": message["role"], "content": [block_of(part, ASKED) for part in message["content"]]}


def _result(part: Part) -> dict[str, Any]:
    extra = dict(part.get("extra") or {})
    item = {"type": "function_call_output", **extra, "call_id": part.get("id")}
    single = item.pop("single", False)
    content = part["content"]
    field = "tools" if item["type"] == "tool_search_output" else "output"
    if len(content) == 1 and content[0]["type"] == "other" and content[0]["extra"].keys() == {"output"}:
        item[field] = content[0]["extra"]["output"]
    else:
        parts = [block_of(inner, ASKED) for inner in content]
        item[field] = parts[0] if single else parts
    return item


def _said(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """The items of an assistant message, by the marks that their first parts carry."""
    place = 0
    while place < len(parts):
        part = parts[place]
        mark = dict((part.get("extra") or {}).get("item") or {}) if part["type"] not in ("server_tool", "other") else {}
        behind, count = mark.pop("after", None), mark.pop("parts", 1)
        end = place + count if behind is None else place + 1 + behind
        yield _item(part, mark, parts[place if behind is None else place + 1 : end])
        place = end


def _item(first: Part, mark: Mapping[str, Any], parts: Sequence[Part]) -> dict[str, Any]:
    match first["type"]:
        case "reasoning":
            return _reasoning(first, mark, parts)
        case "tool_call":
            kind = str(mark.get("type") or "function_call")
            call = {"type": kind, "call_id": first["id"], "name": first["name"]}
            return {**call, CALLS.get(kind, "arguments"): first["arguments"], **mark}
        case "text" | "refusal" | "image" | "audio" | "file":
            return {"role": "assistant", **mark, "content": [block_of(part, SAID) for part in parts]}
        case _:
            return dict(first["extra"])


def _reasoning(first: Part, mark: Mapping[str, Any], parts: Sequence[Part]) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "reasoning", "summary": [], **mark}
    for part in parts:
        extra = {key: value for key, value in (part.get("extra") or {}).items() if key != "item"}
        field = extra.pop("field", "summary")
        usual = "reasoning_text" if field == "content" else "summary_text"
        item.setdefault(field, []).append({"type": usual, "text": part["text"], **extra})
    if "redacted" in first:
        item["encrypted_content"] = first["redacted"]
    return item
