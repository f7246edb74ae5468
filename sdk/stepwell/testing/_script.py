"""What a script sees (`ChatCall`) and what it answers (`Reply`, with the faults of a `Delivery`)."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Message = Mapping[str, Any]
"""A chat message as received, in the chat completions dialect."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call the model makes. `arguments` is the raw string sampled: it need not be valid JSON.

    Where a dialect's calls carry an object in place of a text, other arguments are answered with an error: they have no form there.
    """

    name: str
    arguments: str
    id: str = ""
    """Left empty, the server makes one up, as an engine does."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a reply reaches the client: its framing, its pace and its faults.

    The parts combine, in this order: body (or `malformed`), `crlf`, `gzip`, `piece`, then pacing and `fail_after`.
    """

    piece: int | None = None
    """Cut the body into pieces of so many bytes, each its own chunk (HTTP/1.1) or DATA frame (HTTP/2)."""
    delay_ms: float = 0.0
    """Pause between body messages."""
    hold: threading.Event | None = None
    """Pause until set, after `hold_after` body messages; a body of fewer messages pauses before its last."""
    hold_after: int = 1
    fail_after: int | None = None
    """Abort the connection, without a closing handshake, after so many body bytes (on HTTP/2 every stream dies)."""
    status: int = 200
    """An error status answers with an error body of the dialect; nothing counts as sampled."""
    malformed: bytes | None = None
    """Raw bytes in place of the body, under the headers of the real reply."""
    crlf: bool = False
    """End the lines of an event stream with CR LF, which the specification of server-sent events allows."""
    gzip: bool = False
    """Compress the body, whatever the client accepts; an event stream is flushed at each event."""
    chunk_tokens: int = 4
    """Tokens for each chunk of an event stream; engines under load send several at once."""
    swallow_markup: bool = False
    """Leave out the chunks of a stream that hold tool-call markup only, with their ids: what engines without token-id
    support in their tool parser do, so that the ids streamed are fewer than `usage.completion_tokens`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """More response headers, for example `retry-after`."""

    def __post_init__(self) -> None:
        for name in ("piece", "chunk_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"Delivery.{name} is {value}: it counts from 1")


@dataclass(frozen=True, slots=True)
class Reply:
    """One sampled answer: thoughts, text and tool calls, in this order."""

    content: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    reasoning: str | None = None
    finish_reason: str | None = None
    """Overrides `stop` or `tool_calls`, in chat's words or the vendor's; with `length` the end-of-turn token is not sampled."""
    delivery: Delivery | None = None
    """Of several choices, the first delivery given counts for the whole reply."""


@dataclass(frozen=True, slots=True)
class ChatCall:
    """One choice of one request, as a script sees it: whatever the dialect, in the words of chat completions."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    body: Mapping[str, Any]
    """The whole request, parsed, in its own dialect."""
    raw: bytes = field(repr=False)
    """The request's bytes as received."""
    number: int
    """Running number of the call on this server, from 0."""
    choice: int
    """Index of the choice, from 0 to `n` - 1."""
    dialect: str = "openai.chat"
    """The API that was asked: `openai.chat`, `openai.responses`, `openai.completions`, `anthropic.messages`, `gemini`, `ollama.chat`,
    `ollama.generate`, `bedrock.converse` or `bedrock.invoke`."""
    model_in_path: str = ""
    """The model, where the request's path names it and not its body."""

    @property
    def model(self) -> str:
        return str(self.body.get("model") or self.model_in_path)

    @property
    def seed(self) -> int:
        """The request's `seed`, or 0."""
        seed = self.body.get("seed")
        return seed if isinstance(seed, int) else 0

    @property
    def turn(self) -> int:
        """The number of assistant messages so far: 0 on the first call of a conversation."""
        return sum(message.get("role") == "assistant" for message in self.messages)


Script = Callable[[ChatCall], Reply | Awaitable[Reply]]
"""Decides what the model says. Called on the server's event loop: a plain function must not block, a coroutine may wait."""
