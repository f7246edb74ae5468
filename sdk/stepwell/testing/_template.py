"""The chat template: ChatML with tools in the system message, as the Qwen models write it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

# Tool-call arguments are printed as the raw string sampled, not parsed and written anew as many published templates do,
# and thoughts are kept when the client sends them back: so a turn echoed faithfully re-tokenizes to the ids sampled.
CHAT_TEMPLATE = """
{%- macro text(content) -%}
    {%- if content is string -%}{{ content }}
    {%- elif content -%}
        {%- for part in content -%}
            {%- if part.type in ("image_url", "input_image") -%}<|image_pad|>
            {%- elif part.type == "input_audio" -%}<|audio_pad|>
            {%- else -%}{{ part.text or part.refusal or "" }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- macro assistant(message) -%}
    {%- set thoughts = message.reasoning or message.reasoning_content -%}
    {%- set body = text(message.content) -%}
    {%- if thoughts %}{{ "<think>\\n" ~ thoughts ~ "\\n</think>\\n\\n" }}{% endif -%}
    {{ body }}
    {%- for call in message.tool_calls or [] -%}
        {%- if body or not loop.first %}{{ "\\n" }}{% endif -%}
        {{ '<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}
        {%- if call.function.arguments is string %}{{ call.function.arguments }}
        {%- else %}{{ call.function.arguments | tojson }}{% endif -%}
        {{ "}\\n</tool_call>" }}
    {%- endfor -%}
{%- endmacro -%}
{%- set system = messages[0] if messages and messages[0].role in ("system", "developer") else none -%}
{%- if system or tools -%}
    {{ "<|im_start|>system\\n" }}{{ text(system.content) if system else "" }}
    {%- if tools -%}
        {{ "\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n<tools>" }}
        {%- for tool in tools %}{{ "\\n" ~ tool | tojson }}{% endfor -%}
        {{ "\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within " }}
        {{- '<tool_call></tool_call> tags:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}' }}
        {{- "\\n</tool_call>" }}
    {%- endif -%}
    {{ "<|im_end|>\\n" }}
{%- endif -%}
{%- for message in (messages[1:] if system else messages) -%}
    {%- if message.role == "tool" -%}
        {%- if loop.first or loop.previtem.role != "tool" %}{{ "<|im_start|>user" }}{% endif -%}
        {{ "\\n<tool_response>\\n" ~ text(message.content) ~ "\\n</tool_response>" }}
        {%- if loop.last or loop.nextitem.role != "tool" %}{{ "<|im_end|>\\n" }}{% endif -%}
    {%- else -%}
        {{ "<|im_start|>" ~ message.role ~ "\\n" }}
        {{- assistant(message) if message.role == "assistant" else text(message.content) }}
        {{- "<|im_end|>\\n" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\\n" }}{% endif -%}
"""


class ChatTemplate:
    """Renders a conversation to the text the model is prompted with, in jinja's sandbox."""

    def __init__(self, source: str = CHAT_TEMPLATE) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
        environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
        self.source = source
        self._template = environment.from_string(source)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt's text. Raises `jinja2.TemplateError` or `TypeError` for messages it cannot read."""
        return self._template.render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt)
