"""Tool definitions of any dialect as chat templates take them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwell.reader._realise.needs import Refused

_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema")
"""OpenAI's, Anthropic's, Gemini's."""


def chat_tools(tools: Any) -> list[dict[str, Any]] | None:
    """Each as `{"type": "function", "function": {"name", "description", "parameters"}}`; None where there are none.

    Raises:
        Refused: one is no function (the provider runs it itself), or has no name.
    """
    found = [one for tool in tools or [] for one in _functions(tool)]
    return found or None


def _functions(tool: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(tool, dict):
        raise Refused("a tool that is no object")
    if isinstance(declared := tool.get("functionDeclarations"), list):
        for one in declared:
            yield _function(one)
    elif isinstance(tool.get("function"), dict):
        if not isinstance(tool["function"].get("name"), str):
            raise Refused("a tool without a name")
        yield tool
    else:
        yield _function(tool)


def _function(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, dict) or tool.get("type", "function") not in ("function", "custom"):
        raise Refused("a tool that is no function: the provider runs it")
    if not isinstance(tool.get("name"), str):
        raise Refused("a tool without a name")
    if not tool.keys() & set(_SCHEMAS):
        raise Refused("a tool without a schema of its parameters")
    schema = next(tool[name] for name in _SCHEMAS if name in tool)
    told = {"name": tool["name"], "description": tool.get("description") or "", "parameters": schema}
    return {"type": "function", "function": told}
