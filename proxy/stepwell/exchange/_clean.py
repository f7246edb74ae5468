"""What of a request's and a response's head may be kept.

Lists of what is kept, not of what is removed: a credential in a header or parameter that nobody has heard of yet is then never
written either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

Headers = list[tuple[str, str]]

_KEPT = re.compile(
    r"""accept | content-(type|encoding|length) | user-agent | date | server | retry-after | idempotency-key
    | (x-)?request-id | x-amzn-requestid | traceparent | x-ratelimit-[a-z-]+
    | openai-(model|version|processing-ms) | anthropic-(version|beta)
    | x-stainless-[a-z-]+ | x-stepwell-[a-z0-9._-]+
    | (x-)?session-id | session_id | thread-id | conversation_id | x-parent-session-id | x-claude-code-[a-z-]+
    | x-codex-turn-metadata | amz-sdk-request
    | x-sglext-[a-z-]+
    """,
    re.VERBOSE,
)
_SECRET = re.compile(r"x-.*(token|key|secret|auth|authorization|password|credentials?|cookie|signature)")
"""No member of a family of headers that the list names by its prefix is kept when its name ends like this."""
_KEPT_PARAMETERS = frozenset({"alt", "api-version", "beta"})


def kept_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers worth keeping, names in lower case, in their order."""
    return [(lowered, value) for name, value in headers if (lowered := _kept_name(name))]


@lru_cache(maxsize=4096)
def _kept_name(name: str) -> str:
    """The name in lower case, or nothing. Remembered: this runs while traffic passes, over the same few names."""
    # One that is not ASCII is no header's name, though it may become one in lower case.
    lowered = name.lower() if name.isascii() else ""
    return lowered if _KEPT.fullmatch(lowered) and not _SECRET.fullmatch(lowered) else ""


def clean_url(url: str) -> str:
    """The URL without user, password, fragment, or any parameter that could be a key (`?key=`); empty when it is no URL."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        query = urlencode([(k, v) for k, v in parse_qsl(parts.query, keep_blank_values=True) if k in _KEPT_PARAMETERS])
        return urlunsplit((parts.scheme, host, parts.path, query, ""))
    except ValueError:  # where the host ends cannot be told, so neither can what is secret
        return ""
