"""The server's own record of what it truly sampled and sent, to compare with what was captured."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from stepwell.errors import SettingsError
from stepwell.testing._script import ToolCall

_CREDENTIALS = {
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-amz-security-token",
    "cookie",
}


@dataclass(frozen=True, slots=True)
class LoggedChoice:
    """One sampled choice. `response_ids` and `logprobs` are equal in length."""

    index: int
    response_ids: list[int]
    logprobs: list[float]
    text: str
    """Everything sampled, tool-call markup included, the end-of-turn token not."""
    content: str | None
    reasoning: str | None
    tool_calls: list[ToolCall]
    finish_reason: str


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """One call, logged when its reply ended: sent in full, failed on purpose, or left by the client."""

    call_id: str
    """The id that the reply carries: `chatcmpl-…`, `msg_…`; in Bedrock's dialects its request id, in Ollama's nothing but this log."""
    number: int
    path: str
    model: str
    messages: Sequence[Mapping[str, Any]]
    """What was asked, in the words of chat completions, as the script saw it."""
    tools: Sequence[Mapping[str, Any]]
    prompt_ids: list[int]
    choices: list[LoggedChoice]
    """Empty when nothing was sampled: an error status, a refused request."""
    stream: bool
    status: int
    delivered: bool
    """Whether the reply was sent as sampled and to its end."""
    http_version: str
    headers: list[tuple[str, str]] = field(repr=False)
    """Request headers as received, in order, names in lower case. Credentials are kept in memory only."""
    weight_version: str | None = None
    error: str | None = None
    request: bytes = field(default=b"", repr=False)
    """The request's body as received; not written to the log file."""
    sent: bytes = field(default=b"", repr=False)
    """The reply's body as sent, before transfer framing; not written to the log file."""
    dialect: str = "openai.chat"
    """The API that was asked, as in `ChatCall`."""

    def to_json(self) -> bytes:
        """One line of the log file: all but the raw bodies, credentials replaced by `[redacted]`."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("request", "sent")}
        fields["headers"] = [(name, "[redacted]" if name in _CREDENTIALS else value) for name, value in self.headers]
        return orjson.dumps(fields) + b"\n"


class CallLog:
    """Thread-safe list of logged calls, mirrored to a JSONL file if given a path.

    `keep` bounds the calls held in memory: the newest stay. Each line is in the file when its call has ended. Raises
    `SettingsError` when the file cannot be written.
    """

    def __init__(self, path: Path | None = None, keep: int | None = None) -> None:
        self._calls: deque[LoggedCall] = deque(maxlen=keep)
        self._changed = threading.Condition()
        self._total = 0
        self._path = path
        if path is not None:
            try:
                path.touch()
            except OSError as error:
                message = f"cannot write the call log {path} ({error.strerror}): choose another file"
                raise SettingsError(message) from error

    def add(self, call: LoggedCall) -> None:
        with self._changed:
            if self._path is not None:
                with self._path.open("ab") as file:
                    file.write(call.to_json())
            self._calls.append(call)
            self._total += 1
            self._changed.notify_all()

    def snapshot(self) -> list[LoggedCall]:
        with self._changed:
            return list(self._calls)

    def wait_for(self, count: int, timeout: float) -> list[LoggedCall]:
        """The calls, once `count` of them have ended. Raises `TimeoutError` when they have not within `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._total >= count, timeout):
                raise TimeoutError(f"{self._total} of {count} calls ended within {timeout} s")
            return list(self._calls)
