"""Gemini's contents and their parts to canonical messages, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import orjson

from stepwell.exchange._canonical import Message, Part
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._gemini.words import spelled
from stepwell.exchange._media import media_part

_ROLES = {"user": "user", "model": "assistant", "function": "tool"}
_KNOWN_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_DATA = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "text",
)
"""The fields of a part of which the protocol allows one at a time."""


def canonical_content(content: object, role: str | None = None) -> Message:
    """One content. `role`: whose it is wherever it stands, in canonical words; left out, the content says so itself.

    Raises:
        Unparseable: it is no content.
    """
    given = {"parts": [content]} if isinstance(content, str) else content
    if not isinstance(given, Mapping):
        raise Unparseable("a content is no object with parts")
    fields = spelled(given)
    parts, said = fields.pop("parts", []), fields.pop("role", None)
    message: Message = {"role": role or _role(said), "content": _parts(parts)}
    if said and said != _vendor_role(message["role"], role):
        fields["role"] = said
    return {**message, "extra": fields} if fields else message


def _role(said: object) -> str:
    if not isinstance(said, str):
        return "user"
    return _ROLES.get(said) or (said if said in _KNOWN_ROLES else "user")


def _vendor_role(canonical: str, fixed: str | None = None) -> str | None:
    """The word for a role; of a system prompt only where it is not one of the contents, which have no such role."""
    if canonical == "system":
        return canonical if fixed else None
    return next((vendor for vendor, role in _ROLES.items() if role == canonical), None)


def _parts(value: object, *, nested: bool = False) -> list[Part]:
    # A single part without its list is taken by the API.
    return [part for given in (value if isinstance(value, list) else [value]) for part in _part(given, nested)]


def _part(given: object, nested: bool) -> list[Part]:
    if isinstance(given, str):
        given = {"text": given}
    if not isinstance(given, Mapping):
        raise Unparseable("a part of a content is no object")
    fields = spelled(given)
    data = [name for name in _DATA if name in fields]
    rest = {name: value for name, value in fields.items() if name not in data and (name != "thought" or value)}
    if not data:
        return [_without_data(rest)]
    # Several data in one part are against the protocol; each is a part then, and what goes with them stays with the first.
    return [_datum(name, fields[name], {} if place else rest, nested) for place, name in enumerate(data)]


def _without_data(rest: dict[str, Any]) -> Part:
    """A signature that came alone is reasoning without words, as clients may leave it out later; else nobody knows what it is."""
    signature = rest.get("thoughtSignature")
    if isinstance(signature, str) and rest.keys() <= {"thought", "thoughtSignature"}:
        alone = {} if rest.get("thought") else {"extra": {"thought": False}}
        return {"type": "reasoning", "text": "", "signature": signature, **alone}
    return {"type": "other", "extra": rest}


def _datum(name: str, value: Any, rest: dict[str, Any], nested: bool) -> Part:
    match name, value:
        case "text", str() if rest.get("thought"):
            return _thought(value, rest)
        case "text", str():
            return {"type": "text", "text": value, **_extra(rest)}
        case "functionCall", dict():
            return _call(spelled(value), rest)
        case "functionResponse", dict() if not nested:
            return _result(spelled(value), rest)
        case (("inlineData" | "fileData"), dict()):
            block = spelled(value)
            return media_part(_kind(block.get("mimeType")), {name: block, **rest}, block.get("data"))
        case (("executableCode" | "codeExecutionResult"), dict()):
            return _server_tool("code_execution", name, spelled(value), rest)
        case (("toolCall" | "toolResponse"), dict()):
            tool = spelled(value).get("toolType")
            return _server_tool(tool if isinstance(tool, str) and tool else "tool", name, spelled(value), rest)
        case _:
            return {"type": "other", "extra": {name: value, **rest}}


def _extra(rest: dict[str, Any]) -> dict[str, Any]:
    return {"extra": rest} if rest else {}


def _thought(text: str, rest: dict[str, Any]) -> Part:
    kept = {name: value for name, value in rest.items() if name != "thought"}
    signature = kept.pop("thoughtSignature") if isinstance(kept.get("thoughtSignature"), str) else None
    signed = {"signature": signature} if signature else {}
    return {"type": "reasoning", "text": text, **signed, **_extra(kept)}


def _server_tool(tool: str, name: str, block: dict[str, Any], rest: dict[str, Any]) -> Part:
    """A tool that the provider ran: its call, or its result. Their id stands beside the block, where any dialect's is looked for."""
    named = {"id": block["id"]} if isinstance(block.get("id"), str) else {}
    return {"type": "server_tool", "name": tool, "extra": {**named, name: block, **rest}}


def _kind(mime: object) -> Literal["image", "audio", "file"]:
    family = mime.partition("/")[0].lower() if isinstance(mime, str) else ""
    return "image" if family == "image" else "audio" if family == "audio" else "file"


def _call(call: dict[str, Any], rest: dict[str, Any]) -> Part:
    part: Part = {"type": "tool_call", "id": _popped(call, "id"), "name": _popped(call, "name") or ""}
    part["arguments"] = argument_text(call.pop("args", {}))
    return {**part, **_extra({**rest, **({"functionCall": call} if call else {})})}


def _result(result: dict[str, Any], rest: dict[str, Any]) -> Part:
    part: Part = {"type": "tool_result", "id": _popped(result, "id"), "content": []}
    if "response" in result:
        part["content"].append({"type": "text", "text": argument_text(result.pop("response"), strict=True)})
    part["content"] += _parts(result.pop("parts", []), nested=True)
    return {**part, **_extra({**rest, **({"functionResponse": result} if result else {})})}


def _popped(fields: dict[str, Any], name: str) -> str | None:
    return fields.pop(name) if isinstance(fields.get(name), str) else None


def argument_text(value: Any, *, strict: bool = False) -> str:
    """An object as JSON text, in its own order. A text stays as it is (arguments that were cut) unless `strict`."""
    if isinstance(value, str) and not strict:
        return value
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise Unparseable(f"arguments or a result cannot be written as JSON: {error}") from None


def vendor_content(message: Message) -> dict[str, Any]:
    """The content that a canonical message came from; a system prompt has no role unless it was given one."""
    kept = dict(message.get("extra") or {})
    role = kept.pop("role", None) or _vendor_role(message["role"])
    content: dict[str, Any] = {"parts": [vendor_part(part) for part in message["content"]], **kept}
    return {"role": role, **content} if role else content


def vendor_part(part: Part) -> dict[str, Any]:
    """The part that a canonical one came from."""
    extra = dict(part.get("extra") or {})
    match part["type"]:
        case "text" | "refusal":
            return {"text": part["text"], **extra}
        case "reasoning":
            return _vendor_thought(part, extra)
        case "tool_call":
            named = {"id": part["id"]} if part.get("id") is not None else {}
            call = {"name": part["name"], **named, "args": _value(part["arguments"]), **extra.pop("functionCall", {})}
            return {"functionCall": call, **extra}
        case "tool_result":
            return {"functionResponse": _vendor_result(part, extra.pop("functionResponse", {})), **extra}
        case "server_tool":
            return {name: value for name, value in extra.items() if name != "id"}
        case _:
            return extra


def _vendor_thought(part: Part, extra: dict[str, Any]) -> dict[str, Any]:
    signed = {"thoughtSignature": part["signature"]} if part.get("signature") else {}
    if extra.get("thought") is False:  # the signature had come alone
        return signed
    return {"text": part["text"], "thought": True, **signed, **extra}


def _vendor_result(part: Part, kept: dict[str, Any]) -> dict[str, Any]:
    result = {**({"id": part["id"]} if part.get("id") is not None else {}), **kept}
    said = list(part["content"])
    if said and said[0]["type"] == "text":
        result["response"] = _value(said.pop(0)["text"])
    return {**result, "parts": [vendor_part(inner) for inner in said]} if said else result


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
