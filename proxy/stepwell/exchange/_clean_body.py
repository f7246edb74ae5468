"""Credentials that a request's body carries on its way to somebody else's server: those of MCP servers the provider shall call.

They are transport, not content: `mcp_servers[].authorization_token` of Anthropic, `authorization` and `headers` of an `mcp` tool of
OpenAI Responses. A body is searched as bytes, since nothing is parsed while traffic passes; inside texts (a tool's arguments, a
prompt) quotes are escaped, so what a model or a user said is not touched.
"""

from __future__ import annotations

import re

_NAMES_SERVERS = frozenset({"anthropic.messages", "openai.responses"})
"""Dialects whose requests can name MCP servers."""
_SERVER = b'"mcp'
"""How `"mcp_servers"` and the tool type `"mcp"` begin."""
_SECRET = re.compile(
    rb'((?<!\\)"(?:authorization(?:_token)?|proxy-authorization|x-[a-z-]*(?:key|token|auth))"\s*:\s*)"(?:[^"\\]|\\.)*+(?:"|\\?\Z)',
    re.IGNORECASE | re.DOTALL,
)
REMOVED = b'"[removed]"'


def clean_body(body: bytes, dialect: str | None) -> bytes:
    """A request's body without credentials for MCP servers; as it is when it names none, which is found out by one search."""
    if dialect not in _NAMES_SERVERS or _SERVER not in body:
        return body
    return _SECRET.sub(rb"\1" + REMOVED, body)
