"""What of a recorded call leaves the process: no credential does, whatever it is called.

The gateway removes them once more, by the longer lists of `stepwell.exchange`; but what waits for it may wait on the disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from stepwell.errors import InvalidRecord

__all__ = ["claims", "is_generation", "kept_headers", "kept_url", "without_secrets"]

_GENERATION = re.compile(
    r"""(
    /completions | /responses | /v1/messages | /api/(chat|generate)
    | (/models/.*|/v1internal) : (generateContent|streamGenerateContent) | /models/.* : (rawPredict|streamRawPredict)
    | /model/.+/(invoke|invoke-with-response-stream|converse|converse-stream)
    )\Z""",
    re.VERBOSE,
)
_KEPT = re.compile(
    r"""accept | content-(type|encoding) | user-agent | date | retry-after | idempotency-key | (x-)?request-id
    | openai-(model|version|processing-ms) | anthropic-(version|beta) | x-stainless-retry-count
    | x-stepwell-[a-z0-9._-]+
    """,
    re.VERBOSE,
)
_SECRET = re.compile(r"x-.*(token|key|secret|auth|authorization|password|credentials?|cookie|signature)")
_PARAMETERS = frozenset({"alt", "api-version", "beta"})
_MCP = b'"mcp'
_HEADER = rb"authorization(?:_token)?|cookie|api_?key|(?:[a-z0-9]++-)++(?:authorization|cookie|key|token|auth|secret|password)"


def _secret(names: bytes) -> re.Pattern[bytes]:
    """A name, outside of any text, and its value, though the body ends in the middle of it."""
    return re.compile(rb'((?<!\\)"(?:' + names + rb')"\s*:\s*)"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.IGNORECASE | re.DOTALL)


_MCP_SECRETS = {"/messages": _secret(b"authorization_token"), "/responses": _secret(_HEADER)}
"""By the end of the path, of the APIs that can name MCP servers."""
_META = "x-stepwell-meta-"


def is_generation(method: str, url: str) -> bool:
    """Whether a call is one that becomes steps. Embeddings, files and lists of models are not recorded."""
    return method == "POST" and _GENERATION.search(url.partition("?")[0]) is not None


def kept_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers worth sending, names in lower case."""
    named = ((name.lower(), value) for name, value in headers if name.isascii())
    return [(name, value) for name, value in named if _KEPT.fullmatch(name) and not _SECRET.fullmatch(name)]


def kept_url(url: str) -> str:
    """The URL without user, password, fragment, or any parameter that could be a key."""
    parts = urlsplit(url)
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name in _PARAMETERS])
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def without_secrets(body: bytes, url: str) -> bytes:
    """A body without the credentials of MCP servers that the provider shall call."""
    secret = next((found for end, found in _MCP_SECRETS.items() if url.partition("?")[0].endswith(end)), None)
    return secret.sub(rb'\1"[removed]"', body) if secret is not None and _MCP in body else body


def claims(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a step's fields say of whose call it is, as the headers that capture knows. Raises InvalidRecord."""
    named = {"prompt": "prompt_id", "group": "group_id", "split": "split", "policy-version": "policy_version"}
    said = [
        (f"x-stepwell-{name}", str(value)) for name, field in named.items() if (value := fields.get(field)) is not None
    ]
    return said + [_meta(key, value) for key, value in (fields.get("metadata") or {}).items()]


def _meta(key: str, value: object) -> tuple[str, str]:
    name = f"{_META}{key}"
    if not _KEPT.fullmatch(name) or _SECRET.fullmatch(name):
        raise InvalidRecord(
            f"metadata.{key}",
            "cannot go with a recorded call: there, a name consists of a-z, 0-9, '.', '_' and '-', and is not that of a secret",
        )
    if isinstance(value, str):
        return name, value
    import json

    return name, json.dumps(value, ensure_ascii=False)
