"""A recorded WebSocket of a model's API: one exchange per turn, as the proxy records them (`Turns` says what a turn is)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from stepwell.exchange._clean import clean_url
from stepwell.exchange._dialects import dialect_for
from stepwell.exchange._raw import End, Request, Response
from stepwell.exchange._recorded.found import Found, found, path_of
from stepwell.exchange._turns import Began, Ended, Said, Turns

_HEADERS = [("content-type", "application/x-ndjson")]


@dataclass(frozen=True, slots=True)
class Frame:
    """One text message of a socket; its time in ns since the epoch, 0 where it is not known."""

    from_client: bool
    data: bytes
    at_ns: int = 0


@dataclass(slots=True)
class _Turn:
    request: Request
    lines: list[bytes] = field(default_factory=list)
    first_ns: int = 0
    last_ns: int = 0

    def answer(self, line: bytes, at_ns: int) -> None:
        self.lines.append(line)
        self.first_ns, self.last_ns = self.first_ns or at_ns, at_ns

    def found(self, end: End, error: str | None) -> Found:
        body = b"".join(line + b"\n" for line in self.lines)
        answer = Response(101, list(_HEADERS), body, end, self.last_ns, self.first_ns or None, error)
        return found(self.request, answer)


def found_in_socket(
    upgrade: Request,
    frames: Iterable[Frame],
    end: End = "aborted",
    error: str | None = "the recording ended before the answer did",
) -> Iterator[Found]:
    """The turns of a socket that `upgrade` asked for; one exchange that is no generation when it is no such socket, or without turns.

    `end` and `error` say what became of a turn that the socket's end cut short.
    """
    request = replace(upgrade, method="WEBSOCKET", body=b"")
    if dialect_for("WEBSOCKET", path_of(replace(upgrade, url=clean_url(upgrade.url)))) is None:
        frames = ()
    turns = Turns()
    live: dict[int, _Turn] = {}
    begun = 0
    for frame in frames:
        for move in turns.asked(frame.data) if frame.from_client else turns.answered(frame.data):
            match move:
                case Said(number, line):
                    live[number].answer(line, frame.at_ns)
                case Began(number, body):
                    begun, live[number] = number, _Turn(replace(request, body=body, at_ns=frame.at_ns or upgrade.at_ns))
                case Ended(number, how, why):
                    yield live.pop(number).found(how, why)
    for number in turns.closed():
        yield live.pop(number).found(end, error)
    if not begun:
        yield found(replace(request, method="GET"), Response(101, [], b"", "complete", upgrade.at_ns))
