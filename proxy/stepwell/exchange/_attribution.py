"""What an exchange itself says about whose call it is: explicit headers first, then the client's own names for its conversation.

The sources are the clients' requests as recorded: Claude Code names its session in a header and in `metadata.user_id`, Codex in
`session-id`, `thread-id` and `x-codex-turn-metadata`, opencode in `x-session-id` (a sub-agent has its own, and names its parent's),
openai-agents and Codex in `prompt_cache_key`. Ids that a client made carry the client's name, so that two clients never share one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import orjson

from stepwell.exchange._encoding import decoded
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Split

_MAX_ID = 256
_PREFIX = "x-stepwell-"
_META = "x-stepwell-meta-"
_AGENT = {
    "x-claude-code-agent-id": "agent_id",
    "x-claude-code-agent-type": "agent_type",
    "x-claude-code-request-class": "request_class",
}
_MARKS = (b'"session_id', b"_session_", b'\\"session_id', b'"prompt_cache_key"')
"""Without one of these a request's body names no session, and is not read."""
_OLD_USER_ID = re.compile(r"_session_([0-9a-fA-F-]{36})$")
_UNIQUE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}", re.IGNORECASE)
_AGENT_CLIENTS = re.compile(r"codex|opencode|agents/python|agents/javascript", re.IGNORECASE)
_ATTEMPT = re.compile(r"attempt=(\d{1,3})\b")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Claim:
    """Whose call it is, as far as the exchange says so. What it does not say is None."""

    trajectory_id: str | None = None
    prompt_id: str | None = None
    group_id: str | None = None
    split: str | None = None
    policy_version: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """`x-stepwell-meta-*` by their last part; `session`, and for a sub-agent who it is, in the client's words."""
    retry: int = 0
    """Which retry the client's library says this is; 0 is a first attempt, or no word."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a step that are claimed."""
        named = {
            "trajectory_id": self.trajectory_id,
            "prompt_id": self.prompt_id,
            "group_id": self.group_id,
            "split": self.split,
            "policy_version": self.policy_version,
            "metadata": self.metadata or None,
        }
        return {name: value for name, value in named.items() if value is not None}


def claim_of(exchange: Exchange) -> Claim:
    """The claim of an exchange. Pure, and never raises: what cannot be used is no claim.

    The trajectory is that of the proxy credentials, else that of an explicit header, else the client's session.
    """
    headers = dict(reversed(exchange.request.headers))  # of several, the first counts
    trajectory = exchange.trajectory_id or _explicit(headers, "trajectory")
    session = _header_session(headers)
    if session is None and trajectory is None:  # only then is reading the body a second time worth it
        session = _body_session(_body(exchange), headers.get("user-agent", ""))
    version = _number(headers.get("x-stepwell-policy-version"))
    split = headers.get("x-stepwell-split", "").strip()
    return Claim(
        trajectory_id=trajectory or session,
        prompt_id=_explicit(headers, "prompt"),
        group_id=_explicit(headers, "group"),
        split=split if split in get_args(Split) else None,
        policy_version=version,
        metadata=_metadata(headers, session, usable=(version is not None, split in get_args(Split))),
        retry=_retry(headers),
    )


def bounded_id(value: str) -> str:
    """`value` as an id: at most 256 characters (the end of a longer one is replaced by its hash), none of them a control character."""
    text = _CONTROL.sub("\ufffd", value.encode("utf-8", "replace").decode())
    if len(text) <= _MAX_ID:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return f"{text[: _MAX_ID - len(digest) - 1]}.{digest}"


def _explicit(headers: Mapping[str, str], name: str) -> str | None:
    said = headers.get(f"{_PREFIX}{name}", "").strip() or headers.get(f"{_PREFIX}{name}-id", "").strip()
    return bounded_id(said) if said else None


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        return None
    return number if (number := int(text)) in _INT64 else None


def _metadata(headers: Mapping[str, str], session: str | None, usable: tuple[bool, bool]) -> dict[str, Any]:
    """What was said explicitly wins over what was seen; a value that its field cannot take is kept under the header's name."""
    seen: dict[str, Any] = {name: headers[header] for header, name in _AGENT.items() if headers.get(header)}
    if session is not None:
        seen["session"] = session
    for header, good in zip((f"{_PREFIX}policy-version", f"{_PREFIX}split"), usable, strict=True):
        if headers.get(header) and not good:
            seen[header] = headers[header]
    said = {name.removeprefix(_META): value for name, value in headers.items() if name.startswith(_META)}
    return {**seen, **{name: value for name, value in said.items() if name}}


def _retry(headers: Mapping[str, str]) -> int:
    count = headers.get("x-stainless-retry-count", "").strip()
    if count.isascii() and count.isdigit():
        return min(int(count[:6]), 1000)
    attempt = _ATTEMPT.search(headers.get("amz-sdk-request", ""))
    return max(int(attempt.group(1)) - 1, 0) if attempt else 0


def _header_session(headers: Mapping[str, str]) -> str | None:
    """The client's session, with the client's name before it. A sub-agent's is that of its parent."""
    if id_ := headers.get("x-claude-code-session-id"):
        return bounded_id(f"claude-code:{id_}")
    agent = headers.get("user-agent", "")
    if id_ := headers.get("x-parent-session-id") or headers.get("x-session-id"):
        return bounded_id(f"{'opencode' if 'opencode' in agent.lower() else 'session'}:{id_}")
    codex = "codex" in agent.lower() or "x-codex-turn-metadata" in headers
    turn = _object(headers.get("x-codex-turn-metadata"))
    ids = (headers.get("session-id"), headers.get("session_id"), _text(turn.get("session_id")))
    threads = (headers.get("thread-id"), headers.get("conversation_id"), _text(turn.get("thread_id")))
    if id_ := next((id_ for id_ in (*ids, *threads) if id_), None):
        return bounded_id(f"{'codex' if codex else 'session'}:{id_}")
    return None


def _body_session(body: Mapping[str, Any], agent: str) -> str | None:
    """The session that the request's body names."""
    metadata = body.get("metadata")
    user = _text(metadata.get("user_id")) if isinstance(metadata, Mapping) else None
    old = _OLD_USER_ID.search(user or "")
    if id_ := _text(_object(user).get("session_id")) or (old and old.group(1)):
        return bounded_id(f"claude-code:{id_}")
    client = body.get("client_metadata")
    if isinstance(client, Mapping) and (id_ := _text(client.get("session_id")) or _text(client.get("thread_id"))):
        return bounded_id(f"codex:{id_}")
    key = _text(body.get("prompt_cache_key"))
    # Many programs send one constant key for all that they ever ask: only one made for a run names a conversation.
    if key and (_AGENT_CLIENTS.search(agent) or _UNIQUE.search(key)):
        return bounded_id(f"{'codex' if 'codex' in agent.lower() else 'prompt-cache'}:{key}")
    return None


def _body(exchange: Exchange) -> Mapping[str, Any]:
    """The request's object where it may name a session; nothing when it cannot be read."""
    raw = decoded(exchange.request.body, exchange.request.headers).body
    if not any(mark in raw for mark in _MARKS):
        return {}
    body = _object(raw)
    inner = body.get("response")  # a WebSocket frame may wrap the request
    return inner if body.get("type") == "response.create" and isinstance(inner, Mapping) else body


def _object(text: str | bytes | None) -> Mapping[str, Any]:
    try:
        value = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
