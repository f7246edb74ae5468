"""What was asked in the items of OpenAI's Responses API, in the words of chat completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwell.testing._dialect import Json, Refused
from stepwell.testing._words import assistant, function_tool, image_part, made_call, said, text_part, tool_result

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = ("function_call_output", "custom_tool_call_output")


def messages_of(asked: Any) -> list[Json]:
    """The messages of an `input`: a text, or items. What an assistant said in several items is one message.

    Raises `Refused` for what is neither.
    """
    if isinstance(asked, str):
        return [{"role": "user", "content": asked}]
    if not isinstance(asked, list) or not all(isinstance(item, dict) for item in asked):
        raise Refused(400, "`input` must be a text or a list of items")
    messages: list[Json] = []
    open_turn = _Assistant()
    for item in asked:
        if not open_turn.add(item):
            messages += [*open_turn.take(), *_message(item)]
    return messages + open_turn.take()


def tools_of(body: Mapping[str, Any]) -> list[Json]:
    """The tools of a request, those included that come as an item of its input."""
    asked = body.get("input")
    items = asked if isinstance(asked, list) else []
    late = [tool for item in items if item.get("type") == "additional_tools" for tool in item.get("tools") or ()]
    return [
        function_tool(tool.get("name") or tool.get("type"), tool.get("description"), tool.get("parameters"))
        for tool in [*(body.get("tools") or ()), *late]
    ]


@dataclass(slots=True)
class _Assistant:
    """A turn of the assistant's, item by item."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)

    def add(self, item: Json) -> bool:
        """Add an item; False when it is none of the assistant's."""
        kind = item.get("type", "message")
        if kind == "reasoning":
            self.thoughts += [part["text"] for part in [*(item.get("summary") or ()), *(item.get("content") or ())]]
        elif kind in _CALLS:
            self.calls.append(made_call(item["call_id"], item["name"], item[_CALLS[kind]]))
        elif kind == "message" and item.get("role") == "assistant":
            content = item.get("content") or ""
            parts = [{"text": content}] if isinstance(content, str) else content
            self.texts += [part.get("text") or part.get("refusal") or "" for part in parts]
        else:
            return False
        return True

    def take(self) -> list[Json]:
        """The message of what was added; none when that is nothing."""
        if not (self.texts or self.thoughts or self.calls):
            return []
        message = assistant(self.texts, self.thoughts, self.calls)
        self.texts, self.thoughts, self.calls = [], [], []
        return [message]


def _message(item: Json) -> list[Json]:
    """An item that is not the assistant's; hosted tools' items say nothing to this engine."""
    kind, content = item.get("type", "message"), item.get("content")
    if kind in _RESULTS:
        output = item.get("output")
        return [tool_result(item["call_id"], _parts(output) if isinstance(output, list) else output)]
    if kind != "message":
        return []
    if isinstance(content, str):
        return [{"role": item["role"], "content": content}]
    return [said(item["role"], _parts(content or ()))]


def _parts(parts: Iterable[Json]) -> list[Json]:
    return [
        image_part(part.get("image_url")) if part.get("type") == "input_image" else text_part(part.get("text"))
        for part in parts
    ]
