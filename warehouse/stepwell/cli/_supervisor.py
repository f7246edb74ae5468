"""Keep one child process running: start it, pass its output on, start it again when it dies, stop it for good.

Child and supervisor share two pipes. The child's standard input stays open for as long as the supervisor lives, so its end tells
the child that the supervisor is gone. Its output is passed on line by line, but for the line `{"ready": {…}}` that says it is up.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

_log = logging.getLogger(__name__)

EXIT_SETTINGS = 2
"""The exit code of a process that cannot work with its settings: starting it again would not help."""


@dataclass(frozen=True)
class Backoff:
    """Seconds to wait before the next start: doubled with each death, back to the first after `healthy` seconds of life."""

    first: float = 0.5
    most: float = 30.0
    healthy: float = 60.0

    def after(self, previous: float | None, lived: float) -> float:
        """The wait after a life of `lived` seconds, the wait before it having been `previous`."""
        if previous is None or lived >= self.healthy:
            return self.first
        return min(previous * 2, self.most)


class Child:
    """One supervised process, with a thread that looks after it.

    `environment` is asked for the whole environment at every start. `say` gets the child's output, without newlines. `failed` is
    called once, with the reason, when the child ended with `EXIT_SETTINGS` before it was ever ready; after that it is left alone.
    A child that has been ready once had good settings, so the same exit later (the store is away, say) is one more death to
    recover from.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Callable[[], Mapping[str, str]],
        say: Callable[[str], None],
        failed: Callable[[str], None],
        backoff: Backoff | None = None,
    ) -> None:
        self.ready = threading.Event()
        """Set while the process that runs now has said that it is ready."""
        self.answer: dict[str, object] = {}
        """What it said last with it: its ports."""
        self.starts = 0
        self._command = list(command)
        self._environment = environment
        self._say = say
        self._failed = failed
        self._backoff = backoff or Backoff()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._last_words = ""
        self._thread = threading.Thread(target=self._look_after, name="supervisor", daemon=True)

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        self._thread.start()

    def terminate(self) -> None:
        """Ask it to end, and do not start it again."""
        with self._lock:
            self._stop.set()
            if self._process is not None:
                self._process.terminate()

    def kill(self) -> None:
        """End it at once. Takes no lock, so a signal handler may call it."""
        self._stop.set()
        if (process := self._process) is not None:
            process.kill()

    def join(self, seconds: float) -> None:
        """After `terminate`: wait for its end, by force after `seconds`."""
        if self._thread.ident is None:
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._say(f"did not end within {seconds:g} s: killed")
            self.kill()
            self._thread.join()

    def _look_after(self) -> None:
        wait: float | None = None
        ever_ready = False
        while (process := self._spawn()) is not None:
            born = time.monotonic()
            code = self._follow(process)
            ever_ready = ever_ready or self.ready.is_set()
            self.ready.clear()
            if self._stop.is_set():
                return
            if code == EXIT_SETTINGS and not ever_ready:
                self._failed(self._last_words or "it cannot work with its settings")
                return
            wait = self._backoff.after(wait, time.monotonic() - born)
            self._say(f"ended unexpectedly ({ended(code)}); starts again in {wait:g} s")
            self._stop.wait(wait)

    def _spawn(self) -> subprocess.Popen[str] | None:
        """A new process, or None when there shall be none."""
        with self._lock:
            if self._stop.is_set():
                return None
            self.starts += 1
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=dict(self._environment()),
                    text=True,
                    errors="replace",
                    process_group=0,  # a Ctrl-C in the terminal reaches the supervisor alone, which stops them in order
                )
            except OSError as error:
                self._failed(f"cannot start {self._command[0]}: {error.strerror}")
                return None
            return self._process

    def _follow(self, process: subprocess.Popen[str]) -> int:
        """Pass its output on until it has ended; its exit code."""
        assert process.stdin is not None
        assert process.stdout is not None
        reader = threading.Thread(target=self._read, args=(process.stdout,), name="supervised-output", daemon=True)
        reader.start()
        code = process.wait()
        reader.join(1.0)  # a grandchild may hold the pipe open for longer
        process.stdin.close()
        return code

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self._hear(line.rstrip("\n"))

    def _hear(self, line: str) -> None:
        if line.startswith('{"ready"'):
            self.answer = _answer(line)
            self.ready.set()
        else:
            self._last_words = line.removeprefix("stepwell: ") if line.startswith("stepwell: ") else self._last_words
            self._say(line)


def ended(code: int) -> str:
    """`exit code 3`, `SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _answer(line: str) -> dict[str, object]:
    try:
        answer = json.loads(line)["ready"]
    except (ValueError, KeyError):
        _log.warning("a child's ready line is no JSON object")
        return {}
    return answer if isinstance(answer, dict) else {}
