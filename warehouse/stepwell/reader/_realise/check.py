"""What of a conversation a template did not render: every text gets a mark at its end, and marks that do not come out are told.

The marks are letters and digits, so that escaping for JSON leaves them alone, and at the end, so that a template that looks at how a
text begins sees what it looks for.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator
from typing import Any

from stepwell.reader._realise.template import ChatTemplate

_SALT = f"zq{uuid.uuid4().hex[:12]}"

_THOUGHT = "</think>"

OLD_REASONING = "reasoning of earlier turns"
"""Left out on purpose by templates of reasoning models, and by the engines that use them: no reason to refuse a step."""


def not_rendered(template: ChatTemplate, messages: list[dict[str, Any]], tools: Any) -> list[str]:
    """What does not come out of the template, in words, sorted; the last message is the answer.

    Raises:
        Refused: the template raises something.
    """
    marked = _Marked()
    told, shown = marked.messages(messages), marked.tools(tools)
    text = template.render(told, shown, add_generation_prompt=False).text
    return sorted({what for mark, what in marked.of.items() if mark not in text})


class _Marked:
    """Copies with marks, and what each mark stands for."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        made = [copy.deepcopy(message) for message in messages]
        for message in made[:-1]:
            self._message(message, f"a message of the role {message['role']}", OLD_REASONING)
        if made:
            self._message(made[-1], "the answer's text", "the answer's reasoning")
        return made

    def tools(self, tools: Any) -> Any:
        """Their names: a template that lists a tool names it."""
        made = [copy.deepcopy(tool) for tool in tools or []]
        for tool in made:
            tool["function"]["name"] += self._mark("tools")
        return made or None

    def _message(self, message: dict[str, Any], text: str, reasoning: str) -> None:
        content = message["content"]
        if isinstance(content, str):
            message["content"] = self._text(content, text)
            if message["role"] == "assistant" and _THOUGHT in content:  # where an engine left it in the text
                before, thought, after = message["content"].partition(_THOUGHT)
                message["content"] = self._text(before, reasoning) + thought + after
        else:
            for part in content:
                if part["type"] == "text":
                    part["text"] = self._text(part["text"], text)
        if "reasoning_content" in message:
            message["reasoning_content"] = self._text(message["reasoning_content"], reasoning)
        for call in message.get("tool_calls", ()):
            function = call["function"]
            function["name"] += self._mark("a tool call")
            for holder, key in list(_texts(function["arguments"])):
                holder[key] = self._text(holder[key], "arguments of a tool call")

    def _text(self, text: str, what: str) -> str:
        return text + self._mark(what) if text.strip() else text

    def _mark(self, what: str) -> str:
        mark = f"{_SALT}x{len(self.of)}z"
        self.of[mark] = what
        return mark


def _texts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where the texts in a JSON value are."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if isinstance(inner, str):
            yield value, key
        else:
            yield from _texts(inner)
