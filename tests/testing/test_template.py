from __future__ import annotations

from typing import Any

import jinja2
import pytest

from stepwell.testing import ChatTemplate

TEMPLATE = ChatTemplate()
TOOL = {"type": "function", "function": {"name": "look_up", "description": "Größe", "parameters": {"type": "object"}}}


def test_a_whole_conversation() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"k":  "ü"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Hallo 👋 \n"},
        {"role": "assistant", "content": "Let me see", "tool_calls": [call, call]},
        {"role": "tool", "tool_call_id": "c1", "content": "12"},
        {"role": "tool", "tool_call_id": "c1", "content": "13"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "14"},
    ]
    markup = '<tool_call>\n{"name": "look_up", "arguments": {"k":  "ü"}}\n</tool_call>'
    assert TEMPLATE.render(messages) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\n Hallo 👋 \n<|im_end|>\n"
        f"<|im_start|>assistant\nLet me see\n{markup}\n{markup}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n12\n</tool_response>\n<tool_response>\n13\n</tool_response><|im_end|>\n"
        f"<|im_start|>assistant\n{markup}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n14\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_tools_join_the_system_message_or_make_one() -> None:
    user = {"role": "user", "content": "hi"}
    listed = "\n\n# Tools\n\n"
    alone = TEMPLATE.render([user], [TOOL])
    joined = TEMPLATE.render([{"role": "developer", "content": "Be brief."}, user], [TOOL])
    assert alone.startswith(f"<|im_start|>system\n{listed}")
    assert joined.startswith(f"<|im_start|>system\nBe brief.{listed}")
    assert alone.count("<tools>\n{") == joined.count("<tools>\n{") == 1
    assert '"description": "Größe"' in alone


def test_parts_thoughts_and_the_generation_prompt() -> None:
    parts = [
        {"type": "text", "text": "what is "},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        {"type": "text", "text": "?"},
    ]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "a cat", "reasoning": "ears…"},
    ]
    assert TEMPLATE.render(messages, add_generation_prompt=False) == (
        "<|im_start|>user\nwhat is <|image_pad|>?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nears…\n</think>\n\na cat<|im_end|>\n"
    )


def test_values_are_text_and_never_template_code() -> None:
    rendered = TEMPLATE.render([{"role": "user", "content": "{{ 7 * 7 }} <b>"}], add_generation_prompt=False)
    assert rendered == "<|im_start|>user\n{{ 7 * 7 }} <b><|im_end|>\n"


def test_the_sandbox_holds() -> None:
    with pytest.raises(jinja2.TemplateError):
        ChatTemplate("{{ ''.__class__.__mro__[1].__subclasses__() }}").render([])
