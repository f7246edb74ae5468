"""Items of the Responses API to canonical messages.

A request's `input` and a response's `output` are lists of items. Neighbouring items that the assistant produced (reasoning, messages,
calls, tools that the server ran) are one assistant message, in a history as in the answer that made them: so both compare equal.

What is the item's own and not said in it (id, status, phase, …) is the `item` in the extra of its first part. Where that part is not
the only one, `item.parts` counts them; where it stands for the item alone and says nothing itself, `item.after` counts those behind it.
Items of other kinds are one part whose extra is the whole item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stepwell.exchange._body import without
from stepwell.exchange._canonical import Message, Part
from stepwell.exchange._chat.messages import argument_text
from stepwell.exchange._responses.content import ASKED, SAID, content_of

Item = Mapping[str, Any]

CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Calls of the client's own tools, and the field with what the model wrote."""
_CLIENTS = frozenset({"compaction_trigger", "configuration_update", "mcp_approval_response"})
_KNOWN_TOOLS = ("_call", "_call_output")
_SERVER_TOOLS = frozenset(
    {"mcp_list_tools", "mcp_approval_request", "program", "program_output", "tool_search_output"},
)


def input_messages(items: Iterable[Any]) -> list[Message]:
    """A request's input as messages. Raises ValueError when an item is none."""
    items = list(items)
    ran = _ran_by_server(items)
    messages: list[Message] = []
    said: list[Part] = []
    for item in items:
        if not isinstance(item, Mapping):
            raise ValueError("an item is no object")
        if _by_assistant(item, ran):
            said.extend(_parts(item))
            continue
        if said:
            messages.append({"role": "assistant", "content": said})
            said = []
        messages.append(_message(item))
    return [*messages, {"role": "assistant", "content": said}] if said else messages


def answer_message(items: Iterable[Any]) -> Message:
    """A response's output as the one message that it is. Raises ValueError when an item is none."""
    said: list[Part] = []
    for item in items:
        if not isinstance(item, Mapping):
            raise ValueError("an item is no object")
        said.extend(_parts(item))
    return {"role": "assistant", "content": said}


def item_tools(messages: Iterable[Message]) -> list[Any]:
    """The tools that a client (Codex) sends as an item of the conversation."""
    tools: list[Any] = []
    for message in messages:
        for part in message["content"]:
            extra = part.get("extra") if part["type"] == "other" else None
            if isinstance(extra, Mapping) and extra.get("type") == "additional_tools":
                listed = extra.get("tools")
                tools.extend(listed if isinstance(listed, list) else ())
    return tools


def is_message(item: Item) -> bool:
    return item.get("type") == "message" or (item.get("type") is None and isinstance(item.get("role"), str))


def _by_assistant(item: Item, ran: set[str]) -> bool:
    """Whether the assistant, or a tool on the server's side, produced this item of an input."""
    kind = item.get("type")
    if is_message(item):
        return item.get("role") == "assistant"
    if kind == "additional_tools":
        return item.get("role") not in ("developer", "system", "user")
    if kind == "tool_search_output":
        return item.get("execution") == "server"
    if kind == "shell_call_output":
        return str(item.get("call_id")) in ran
    return kind == "program_output" or not (str(kind) in _CLIENTS or str(kind).endswith("_output"))


def _ran_by_server(items: Iterable[Any]) -> set[str]:
    """The ids of shell calls that ran in a container of the provider's: their output came with the same answer."""
    return {
        item["call_id"]
        for item in items
        if isinstance(item, Mapping)
        and item.get("type") == "shell_call"
        and isinstance(item.get("call_id"), str)
        and isinstance(environment := item.get("environment"), Mapping)
        and str(environment.get("type")).startswith("container")
    }


def _message(item: Item) -> Message:
    """An item that stands for itself: a message, a tool's result, or something that only the client can have said."""
    if is_message(item):
        if not isinstance(role := item.get("role"), str):
            raise ValueError("a message's role is no text")
        message: Message = {"role": role, "content": content_of(item.get("content"), ASKED)}
        extra = without(dict(item), "role", "content")
        return {**message, "extra": extra} if extra else message
    if str(item.get("type")).endswith("_output"):
        return {"role": "tool", "content": [_result(item)]}
    role = item.get("role") if item.get("role") in ("system", "user") else "developer"
    if item.get("type") == "mcp_approval_response":
        role = "user"
    return {"role": role, "content": [{"type": "other", "extra": dict(item)}], "extra": {"item": True}}


def _result(item: Item) -> Part:
    """The result of a call. Tools found by a search are its content; a single object (a screenshot) is one part."""
    field = "tools" if item.get("type") == "tool_search_output" else "output"
    extra = without(dict(item), "call_id", field)
    output = item.get(field)
    if isinstance(output, Mapping):
        output, extra["single"] = [output], True
    return {
        "type": "tool_result",
        "id": item.get("call_id"),
        "content": [{"type": "other", "extra": {"output": output}}]
        if output is not None and not isinstance(output, (str, list))
        else content_of(output, ASKED),
        "extra": extra,
    }


def _parts(item: Item) -> list[Part]:
    kind = item.get("type")
    if is_message(item):
        return _said(item)
    if kind == "reasoning":
        return _thought(item)
    if isinstance(kind, str) and kind in CALLS:
        return [_call(item, kind)]
    if isinstance(kind, str) and (kind.endswith(_KNOWN_TOOLS) or kind in _SERVER_TOOLS):
        return [{"type": "server_tool", "name": kind, "extra": dict(item)}]
    return [{"type": "other", "extra": dict(item)}]


def _said(item: Item) -> list[Part]:
    own = without(dict(item), "content", *(["role"] if item.get("role") == "assistant" else []))
    parts = content_of(item.get("content"), SAID)
    if not parts or any(part["type"] not in ("text", "refusal") for part in parts):
        return [_standing({"type": "text", "text": ""}, own, len(parts)), *parts]
    return _marked(parts, own)


def _thought(item: Item) -> list[Part]:
    """One part for each text of a reasoning item; its encrypted content is the `redacted` of the first."""
    own = without(dict(item), "type", "summary", "content", "encrypted_content")
    parts: list[Part] = []
    for field, usual in (("summary", "summary_text"), ("content", "reasoning_text")):
        blocks = item.get(field)
        if isinstance(blocks, list) and all(_has_text(block) for block in blocks):
            parts.extend(_reasoning(block, field, usual) for block in blocks)
        elif blocks is not None:
            own[field] = blocks
    marked = _marked(parts, own) if parts else [_standing({"type": "reasoning", "text": ""}, own, 0)]
    if item.get("encrypted_content") is not None:
        marked[0]["redacted"] = item["encrypted_content"]
    return marked


def _has_text(block: object) -> bool:
    return isinstance(block, Mapping) and isinstance(block.get("text"), str)


def _reasoning(block: Item, field: str, usual: str) -> Part:
    extra = without(dict(block), "text", *(["type"] if block.get("type") == usual else []))
    if field == "content":
        extra["field"] = field
    return {"type": "reasoning", "text": block["text"], **({"extra": extra} if extra else {})}


def _call(item: Item, kind: str) -> Part:
    own = without(dict(item), "call_id", "name", CALLS[kind], *(["type"] if kind == "function_call" else []))
    name = item.get("name")
    return {
        "type": "tool_call",
        "id": item.get("call_id"),
        "name": name if isinstance(name, str) else "",
        "arguments": argument_text(item.get(CALLS[kind])),
        **({"extra": {"item": own}} if own else {}),
    }


def _marked(parts: list[Part], own: dict[str, Any]) -> list[Part]:
    item = {**own, **({"parts": len(parts)} if len(parts) > 1 else {})}
    first = {**parts[0], "extra": {**parts[0].get("extra", {}), "item": item}}
    return [first, *parts[1:]]


def _standing(part: Part, own: dict[str, Any], behind: int) -> Part:
    return {**part, "extra": {"item": {**own, "after": behind}}}
