"""Work that would hold other requests up, in processes of its own: they can be stopped at any time, and share no lock with the gateway.

A worker is started when the first question comes, answers one after the other, and ends by itself when none has come for a while, or
when the gateway is gone. It has a warehouse object of its own. One that is stopped, because its time is over or the client went away, is
killed: it only reads.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import orjson
from fastapi import Request
from starlette.responses import Response

from stepwell.gateway._problems import RETRY_AFTER, Problem
from stepwell.gateway._warehouse import LazyWarehouse, Place

__all__ = ["LIMIT", "Workers"]

MOST = 2
"""At once; more questions wait."""
WAITING = 8
"""Questions that are answered or wait, beyond which one is refused."""
LIMIT = 120.0
"""Seconds for an answer, from when a worker begins with it."""


class Workers:
    """Asks workers over one warehouse. Any event loop."""

    def __init__(self, warehouse: LazyWarehouse, limit: float = LIMIT) -> None:
        self._warehouse, self._limit = warehouse, limit
        self._room = threading.BoundedSemaphore(WAITING)
        self._threads = ThreadPoolExecutor(MOST, thread_name_prefix="stepwell-worker")
        self._idle: list[_Worker] = []

    async def answer(self, request: Request, task: str, asked: Mapping[str, Any]) -> Response:
        """What a worker answers to a question (see `_work`).

        Raises:
            Problem: 503 where too many wait, the worker's time is over or it ended; 400 where the client is gone.
            StoreError: the warehouse cannot be opened.
        """
        if not self._room.acquire(blocking=False):
            raise Problem(503, f"more than {WAITING} such requests at once: come again", headers={"retry-after": "5"})
        job = _Job(orjson.dumps({"task": task, "asked": asked}) + b"\n")
        answer = self._threads.submit(self._work, job)
        answer.add_done_callback(lambda _: self._room.release())
        work, gone = asyncio.wrap_future(answer), asyncio.ensure_future(_gone(request))
        either: set[asyncio.Future[Any]] = {work, gone}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise Problem(400, "the client went away before its request was answered")
            return work.result()
        finally:
            gone.cancel()
            if not work.done() and not answer.cancel():  # it has begun
                job.stop()
                with suppress(Problem):  # which says that it was stopped
                    await work

    def _work(self, job: _Job) -> Response:
        said, code = b"", 0
        for attempt in ("with one that is there", "with a new one"):
            worker = self._taken(anew=attempt == "with a new one")
            if said := job.run(worker, self._limit):
                self._idle.append(worker)
                return _response(said)
            code = worker.end() or 0
            if job.stopped:  # else it had ended before: by itself, idle for too long, or stopped a moment too late
                break
        raise job.problem(code, self._limit)

    def _taken(self, anew: bool) -> _Worker:
        while self._idle and not anew:
            worker = self._idle.pop()  # the one that worked last, which remembers most
            if worker.process.poll() is None:
                return worker
            worker.end()
        place = self._warehouse.place()
        return _Worker(place)


class _Worker:
    """A process that is there for questions."""

    def __init__(self, place: Place) -> None:
        command = [sys.executable, "-m", "stepwell.gateway._work"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.end = weakref.finalize(self, _ended, self.process)
        # Credentials may be among the options: nobody sees what goes through a pipe.
        self.hello = orjson.dumps({"uri": place.uri, "options": dict(place.storage_options or {})}) + b"\n"

    def ask(self, question: bytes) -> bytes:
        """Its answer; empty where it ended before."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(self.hello + question)
            self.process.stdin.flush()
        except OSError:  # it has ended
            return b""
        self.hello = b""
        said = self.process.stdout.readline()
        return said if said.endswith(b"\n") else b""


def _ended(process: subprocess.Popen[bytes]) -> int:
    """End it if it has not ended, and put its pipes away; its exit code."""
    if process.poll() is None:
        process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what was not written yet goes nowhere
            if pipe is not None:
                pipe.close()
    return process.wait()


class _Job:
    """One question, which can be stopped from another thread."""

    def __init__(self, question: bytes) -> None:
        self._question = question
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._why: str | None = None

    def run(self, worker: _Worker, limit: float) -> bytes:
        """The worker's answer; empty when it was stopped, or ended."""
        with self._lock:
            if self._why is not None:
                return b""
            self._process = worker.process
        timer = threading.Timer(limit, self.stop, ("took too long",))
        timer.daemon = True
        timer.start()
        try:
            return worker.ask(self._question)
        finally:
            timer.cancel()
            with self._lock:
                self._process = None

    @property
    def stopped(self) -> bool:
        return self._why is not None

    def stop(self, why: str = "was stopped") -> None:
        """Kill the worker that is at it; one that has not begun will not begin."""
        with self._lock:
            self._why = self._why or why
            if self._process is not None:
                self._process.kill()

    def problem(self, code: int, limit: float) -> Problem:
        """Why there is no answer."""
        if self._why == "took too long":
            detail = f"this took more than {limit:g} s: ask for less"
        elif self._why is not None:
            detail = f"the request {self._why}"
        else:
            detail = (
                f"the process that worked on this ended (exit code {code}; the gateway's log may say why): ask for less"
            )
        return Problem(503, detail, headers={"retry-after": "30"})


async def _gone(request: Request) -> None:
    """Return when the client has gone. What it sent is read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(said: bytes) -> Response:
    """The worker's line as an answer."""
    status = int(said[:3])
    kind = "application/json" if status < 400 else "application/problem+json"
    return Response(said[4:-1], status, {"retry-after": RETRY_AFTER} if status == 503 else {}, kind)
