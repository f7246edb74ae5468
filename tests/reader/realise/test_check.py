"""What a template leaves out is found, and what it renders is not accused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reader.realise.conftest import CHATML

from stepwell.reader._realise.check import OLD_REASONING, not_rendered
from stepwell.reader._realise.template import ChatTemplate

pytest.importorskip("jinja2")

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
CALL = {"type": "function", "function": {"name": "look", "arguments": {"at": 'a "b"\n', "deep": [{"x": "é"}], "n": 1}}}
ASK = {"role": "user", "content": "q"}
SAID = {"role": "assistant", "content": "a", "reasoning_content": "hm", "tool_calls": [CALL]}
RESULT = {"role": "tool", "content": "r"}


def missing(source: str, *messages: dict[str, Any], tools: Any = None) -> list[str]:
    return not_rendered(ChatTemplate(source), list(messages), tools)


def test_a_template_that_renders_everything_leaves_out_nothing() -> None:
    assert missing(CHATML, ASK, SAID, tools=TOOLS) == []
    assert missing(CHATML, ASK, {"role": "assistant", "content": "", "tool_calls": [CALL]}) == []


def test_reasoning_of_earlier_turns_is_told_apart() -> None:
    assert missing(CHATML, ASK, SAID, RESULT, SAID) == [OLD_REASONING]


def test_each_kind_is_named() -> None:
    only_users = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    assert missing(only_users, ASK, {"role": "system", "content": "s"}, RESULT, SAID, tools=TOOLS) == [
        "a message of the role system",
        "a message of the role tool",
        "a tool call",
        "arguments of a tool call",
        "the answer's reasoning",
        "the answer's text",
        "tools",
    ]


def test_a_text_that_is_cut_is_found() -> None:
    assert missing("{% for m in messages %}{{ m.content[:3] }}{% endfor %}", {"role": "user", "content": "long"}, ASK)


def test_thoughts_that_an_engine_left_in_the_text_are_reasoning() -> None:
    thought = {"role": "assistant", "content": "<think>\nhm\n</think>\n\na"}
    cut = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}"
    assert missing(cut, thought, ASK) == [OLD_REASONING]
    assert missing(cut, ASK, thought) == ["the answer's reasoning"]
    assert missing(CHATML, ASK, thought) == []


def test_what_was_given_stays_as_it_was() -> None:
    before = str((ASK, SAID, TOOLS))
    missing(CHATML, ASK, SAID, tools=TOOLS)
    assert str((ASK, SAID, TOOLS)) == before
