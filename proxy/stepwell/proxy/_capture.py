"""Recording generations: the request when it is forwarded, the response when it has ended.

Nothing in here may harm a call. What goes wrong is counted in the spool and logged, once a minute per kind, without a word of what
was being recorded.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Concatenate, ParamSpec

from mitmproxy import http

from stepwell.errors import StepwellError
from stepwell.exchange import Declared, End, Request, Response, request_entry, response_entry
from stepwell.proxy._flows import Call
from stepwell.proxy._tee import Tee
from stepwell.spool import SpoolWriter

_log = logging.getLogger(__name__)

_LOG_EVERY = 60.0
_MAX_COUNTED = 10_000
"""Trajectories whose losses are counted at a time; most end, and are forgotten then."""
_QUOTED = re.compile(r"""\bb['"].*""", re.DOTALL)
"""mitmproxy quotes what it could not parse, which may be a header with a secret in it."""

P = ParamSpec("P")


def harmless(
    step: Callable[Concatenate[Capture, Call, P], None],
) -> Callable[Concatenate[Capture, Call, P], None]:
    """A step of recording whose failure costs the record and nothing else."""

    @wraps(step)
    def guarded(self: Capture, call: Call, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(self, call, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 — the boundary between capture and traffic
            self.lose(call, error)

    return guarded


class Capture:
    """Writes exchanges to the spool."""

    def __init__(
        self, writer: SpoolWriter, max_body_bytes: int, declared: Callable[[], Declared | None] = lambda: None
    ) -> None:
        """`declared` says which policy is declared at the moment."""
        self._writer = writer
        self._declared = declared
        self._limit = max_body_bytes
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()
        self._calls: dict[str, int] = {}  # by trajectory, as they were announced
        self._lost: dict[str, int] = {}  # by trajectory, oldest first; the writer's thread counts here too

    @harmless
    def request(self, call: Call, request: http.Request, added: tuple[str, ...]) -> None:
        """Record what is being forwarded."""
        asked = Request(
            method=request.method,
            url=call.url,
            headers=header_pairs(request.headers) + call.own,
            body=request.raw_content or b"",
            at_ns=time.time_ns(),
            http_version=request.http_version,
        )
        self._keep(call, asked, added)

    @harmless
    def record(self, call: Call, asked: Request) -> None:
        """Record a request that came another way than as one of HTTP."""
        self._keep(call, asked)

    def _keep(self, call: Call, asked: Request, added: tuple[str, ...] = ()) -> None:
        if call.trajectory_id in self._calls:
            self._calls[call.trajectory_id] += 1
        if len(asked.body) > self._limit:
            asked = replace(asked, body=asked.body[: self._limit], truncated=True)
        call.exchange_id = _new_id()
        entry = request_entry(
            call.exchange_id,
            asked,
            self._declared(),
            dialect=call.dialect.name if call.dialect else None,
            trajectory_id=call.trajectory_id,
            engine=call.route.engine if call.route else None,
            added=added,
        )
        call.recorded = self._writer.post(entry, partial(self.lose, call))

    def tee(self, call: Call) -> Tee:
        """What keeps the answer's bytes."""
        call.tee = Tee(self._limit)
        return call.tee

    @harmless
    def response(self, call: Call, end: End, error: str | None = None) -> None:
        """Record how it ended. Whoever popped the call from the flows calls this, once."""
        recorded = call.recorded
        if recorded is None:  # never forwarded, or lost already
            return
        response, tee = call.response, call.tee or Tee(0)
        answered = Response(
            status=response.status_code if response else None,
            headers=header_pairs(response.headers) if response else [],
            body=tee.take(),
            end=end,
            at_ns=time.time_ns(),
            first_byte_ns=tee.first_ns,
            marks=tuple(tee.marks),
            error=_QUOTED.sub("…", error)[:500] if error else None,
            truncated=tee.truncated,
            declared=self._declared(),
        )
        entry = response_entry(call.exchange_id, answered, call.dialect.name if call.dialect else None)
        self._writer.post(entry, partial(self.lose, call), after=recorded)

    def announce(self, trajectory_id: str) -> None:
        """Count the generations of a trajectory from now on. Too many trajectories: the one announced first is forgotten."""
        self._calls.setdefault(trajectory_id, 0)
        if len(self._calls) > _MAX_COUNTED:
            del self._calls[next(iter(self._calls))]

    def calls(self, trajectory_id: str) -> int | None:
        """How many generations of a trajectory were forwarded since it was announced; None: it was not, or is forgotten."""
        return self._calls.get(trajectory_id)

    def take_lost(self, trajectory_id: str) -> int:
        """How many calls of a trajectory were lost since this was last asked."""
        with self._lock:
            return self._lost.pop(trajectory_id, 0)

    def add_lost(self, trajectory_id: str, count: int) -> None:
        """Remember `count` lost calls of a trajectory until `take_lost`. Too many trajectories: the one counted first is forgotten."""
        with self._lock:
            self._lost[trajectory_id] = self._lost.get(trajectory_id, 0) + count
            if len(self._lost) > _MAX_COUNTED:
                del self._lost[next(iter(self._lost))]

    def lose(self, call: Call, error: BaseException) -> None:
        """Count a call that could not be recorded, and say so unless that was said a moment ago."""
        self._writer.count_loss()
        if call.trajectory_id is not None:
            self.add_lost(call.trajectory_id, 1)
        kind, now = type(error).__name__, time.monotonic()
        if now - self._said.get(kind, -_LOG_EVERY) < _LOG_EVERY:
            return
        self._said[kind] = now
        reason = str(error) if isinstance(error, StepwellError) else f"{kind} at {_where(error)}"
        _log.error("a call went through unrecorded (%d lost so far): %s", self._writer.lost, reason)


def _new_id() -> str:
    """Unique, and in the order of time: the spool's index then grows at its end, where random ids would touch a page each."""
    return f"{time.time_ns():016x}{secrets.token_hex(8)}"


def header_pairs(headers: http.Headers) -> list[tuple[str, str]]:
    """Names and values as text, in their order."""
    return [(name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in headers.fields]


def _where(error: BaseException) -> str:
    """File and line, not the message: it could quote what was being recorded."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "an unknown place"
