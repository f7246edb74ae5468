"""Content parts of Responses items to canonical parts, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from stepwell.exchange._body import without
from stepwell.exchange._canonical import Part
from stepwell.exchange._media import media_part

ASKED, SAID = "input_text", "output_text"
"""The types of a text on the client's and on the assistant's side: of the two, the usual one is not kept."""
_MEDIA: dict[str, Literal["image", "audio", "file"]] = {
    "input_image": "image",
    "computer_screenshot": "image",
    "input_file": "file",
    "input_audio": "audio",
}
_NAMES = {kind: name for name, kind in _MEDIA.items() if name.startswith("input_")}
_DATA = {"image": ("image_url", "url"), "file": ("file_data", ""), "audio": ("input_audio", "data")}


def content_of(content: object, usual: str) -> list[Part]:
    """Content parts; `usual` is the type that a text has here and that need not be kept."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if isinstance(content, list):
        return [_part(part, usual) for part in content]
    raise ValueError("an item's content is neither text nor a list of parts")


def _part(part: object, usual: str) -> Part:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise ValueError("a content part is no object")
    kind = part.get("type")
    if kind in (ASKED, SAID, "text") and isinstance(part.get("text"), str):
        extra = {key: value for key, value in part.items() if key not in ("type", "text") and value not in (None, [])}
        if kind != usual:
            extra["type"] = kind
        return {"type": "text", "text": part["text"], **({"extra": extra} if extra else {})}
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        extra = without(dict(part), "type", "refusal")
        return {"type": "refusal", "text": part["refusal"], **({"extra": extra} if extra else {})}
    if isinstance(kind, str) and kind in _MEDIA:
        return _medium(part, kind)
    return {"type": "other", "extra": dict(part)}


def _medium(part: Mapping[str, Any], kind: str) -> Part:
    field, inner = _DATA[_MEDIA[kind]]
    data = part.get(field)
    block = dict(part) if kind == "computer_screenshot" else {key: v for key, v in part.items() if key != "type"}
    return media_part(_MEDIA[kind], block, data.get(inner) if isinstance(data, Mapping) else data)


def block_of(part: Part, usual: str) -> dict[str, Any]:
    """A part as it was sent."""
    extra = {key: value for key, value in (part.get("extra") or {}).items() if key != "item"}
    match part["type"]:
        case "text":
            return {"type": usual, "text": part["text"], **extra}
        case "refusal":
            return {"type": "refusal", "refusal": part["text"], **extra}
        case "image" | "audio" | "file":
            return {"type": _NAMES[part["type"]], **extra}
        case _:
            return dict(part["extra"])
