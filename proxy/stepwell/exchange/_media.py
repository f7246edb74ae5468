"""Images, audio and files in messages: named by the hash of their bytes, so that the same one is known again wherever it is repeated."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from stepwell.exchange._canonical import Part


def media_part(kind: Literal["image", "audio", "file"], block: Mapping[str, Any], data: object = None) -> Part:
    """A part for `block`, which is kept whole in `extra`. `data`: its base64 text (or a `data:` URL), where it has one."""
    part: Part = {"type": kind}
    if isinstance(data, str) and (digest := content_hash(data)):
        part["hash"] = digest
    return {**part, "extra": dict(block)}


def content_hash(data: str) -> str | None:
    """`sha256:<hex>` of what base64 text or a `data:` URL holds; None when it holds none (a link, or damaged)."""
    if data.startswith("data:"):
        head, comma, data = data.partition(",")
        if not comma or not head.endswith(";base64"):
            return None
    elif "://" in data[:16]:
        return None
    try:
        raw = base64.b64decode(data.translate(_STANDARD) + "=" * (-len(data) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


_STANDARD = str.maketrans("-_", "+/", "\r\n ")
"""URL-safe base64 (Gemini's SDKs) is the same bytes."""
