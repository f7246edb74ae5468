"""Credentials that a body carries on its way to somebody else's server: those of MCP servers the provider shall call.

They are transport, not content: `mcp_servers[].authorization_token` of Anthropic, `authorization` and `headers` of an `mcp` tool of
OpenAI Responses, which servers may repeat in their answers. A body is searched as bytes, since nothing is parsed while traffic passes.
What a model or a user said is not touched: inside texts quotes are escaped, and where a tool's arguments are an object, at Anthropic,
the one name that is looked for is the API's own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stepwell.exchange._clean import Headers
from stepwell.exchange._encoding import decoded

_SERVER = b'"mcp'
"""How `"mcp_servers"` and the tool type `"mcp"` begin."""
_HEADER = rb"authorization(?:_token)?|cookie|api_?key|(?:[a-z0-9]++-)++(?:authorization|cookie|key|token|auth|secret|password)"
"""A bare name that ends so may be a field of the request: `prompt_cache_key` is. A header has hyphens."""


def _secret(names: bytes) -> re.Pattern[bytes]:
    """A name, outside of any text, and its value, though the body ends in the middle of it."""
    return re.compile(rb'((?<!\\)"(?:' + names + rb')"\s*:\s*)"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.IGNORECASE | re.DOTALL)


_SECRETS = {"anthropic.messages": _secret(b"authorization_token"), "openai.responses": _secret(_HEADER)}
"""By dialect, of those that can name MCP servers."""
REMOVED = b'"[removed]"'
MOST = 32 << 20
"""Most bytes of a compressed body that are looked through while traffic passes: some hundredths of a second."""


class Cleaned(NamedTuple):
    """A body that may be kept, the headers that are true of it, and whether it is the beginning only."""

    body: bytes
    headers: Headers
    cut: bool = False


def clean_kept(body: bytes, headers: Headers, dialect: str | None) -> Cleaned:
    """A body as it crossed the wire, without credentials for MCP servers. `headers`: those that are kept, names in lower case.

    A compressed one that holds some is kept plain, and of one that is larger than `MOST` only so much: what was not looked through
    may hold them.
    """
    if dialect not in _SECRETS:
        return Cleaned(body, headers)
    plain = decoded(body, headers, MOST).body
    clean, cut = clean_body(plain, dialect), len(plain) >= MOST and len(body) < len(plain)
    if plain is body or (clean == plain and not cut):
        return Cleaned(clean if plain is body else body, headers)
    return Cleaned(clean, [(name, value) for name, value in headers if name != "content-encoding"], cut)


def clean_body(body: bytes, dialect: str | None) -> bytes:
    """A body without credentials for MCP servers; as it is when it names none, which is found out by one search."""
    secret = _SECRETS.get(dialect or "")
    if secret is None or _SERVER not in body:
        return body
    return secret.sub(rb"\1" + REMOVED, body)
