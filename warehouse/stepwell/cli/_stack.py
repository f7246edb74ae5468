"""Proxy, gateway and ingest as supervised child processes on one data folder: what `stepwell up` runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from stepwell.cli._installation import installation
from stepwell.cli._process import lock_folder
from stepwell.cli._settings import Settings
from stepwell.cli._supervisor import Backoff, Child
from stepwell.errors import SettingsError, StepwellError
from stepwell.spool import ProcessLock

PROGRAMS: Mapping[str, Sequence[str]] = {
    # -P: a file of the working directory must not pass for a module of the standard library.
    name: (sys.executable, "-P", "-m", "stepwell.cli", name, "--supervised")
    for name in ("proxy", "gateway", "ingest")
}
"""The command line of each process. Spawned, never forked: each starts from a clean interpreter."""

_LAST = "ingest"
"""Stopped when the others have ended, so that what they still wrote while draining is committed."""


@dataclass(frozen=True)
class Ports:
    """Where the stack listens on 127.0.0.1."""

    proxy: int
    """For agents that only know HTTPS_PROXY."""
    run: int
    """For `stepwell run`."""
    gateway: int


class Stack:
    """The whole of Stepwell on one data folder. Ports set to 0 become free ones, kept for as long as the stack runs.

    `say(process, line)` gets what the processes log, and when one dies; `failed()` is called when one cannot work with its
    settings, and `failure` then says why. Both are called from other threads.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        say: Callable[[str, str], None] | None = None,
        failed: Callable[[], None] | None = None,
        backoff: Backoff | None = None,
        stop_seconds: float | None = None,
        programs: Mapping[str, Sequence[str]] = PROGRAMS,
    ) -> None:
        self.settings = settings
        self.failure: str | None = None
        self._failed = failed
        self._stop_seconds = stop_seconds or max(20.0, settings.proxy.drain_seconds, settings.ingest.drain) + 10.0
        self._lock: ProcessLock | None = None
        quiet: Callable[[str, str], None] = lambda _process, _line: None  # noqa: E731
        self._children = {
            name: Child(
                command,
                environment=self.environment,
                say=partial(say or quiet, name),
                failed=partial(self._give_up, name),
                backoff=backoff,
            )
            for name, command in programs.items()
        }

    def start(self) -> None:
        """Lock the data folder, make token and certificate authority, start the processes; does not wait until they are ready.

        Raises:
            SettingsError: another stack runs on this folder, or a folder cannot be used.
            MissingExtra: the proxy's packages are not installed.
        """
        self._lock = lock_folder(self.settings.data, "up")
        try:
            installation(self.settings.proxy)
        except BaseException:
            self._lock.release()
            raise
        for child in self._children.values():
            child.start()

    def wait_ready(self, timeout: float = 60.0) -> Ports:
        """Return when every process has said that it is ready.

        Raises:
            SettingsError: one cannot work with its settings; its own words.
            StepwellError: not all were ready after `timeout` seconds; names them.
        """
        deadline = time.monotonic() + timeout
        for child in self._children.values():
            while not child.ready.wait(0.05):
                if self.failure is not None:
                    raise SettingsError(self.failure)
                if time.monotonic() > deadline:
                    late = [name for name, child in self._children.items() if not child.ready.is_set()]
                    raise StepwellError(f"not ready after {timeout:g} s: {', '.join(late)}; their log says why")
        return self.ports

    @property
    def ports(self) -> Ports:
        """The ports as the processes reported them, or as set before they did."""
        return Ports(
            proxy=self._port("proxy", "port", self.settings.proxy.port),
            run=self._port("proxy", "run_port", self.settings.proxy.run_port),
            gateway=self._port("gateway", "port", self.settings.gateway.port),
        )

    @property
    def pids(self) -> dict[str, int | None]:
        """The process id of each process, None for one that is not running right now."""
        return {name: child.pid for name, child in self._children.items()}

    def environment(self) -> dict[str, str]:
        """The environment for a process that shall use this stack: the caller's, with the settings and ports of the stack.

        `stepwell run`, `query`, … started with it find the stack wherever they run. The stack's own processes get the same, so
        one that is started again comes back on the port that its users know.
        """
        ports = self.ports
        proxy = self.settings.proxy.model_copy(update={"port": ports.proxy, "run_port": ports.run})
        gateway = self.settings.gateway.model_copy(update={"port": ports.gateway})
        return self.settings.model_copy(update={"proxy": proxy, "gateway": gateway}).environment(os.environ)

    def stop(self) -> None:
        """End all processes in good order, ingest last; by force those that take longer than `stop_seconds`."""
        children = [child for name, child in self._children.items() if name != _LAST]
        for wave in (children, [child for name, child in self._children.items() if name == _LAST]):
            for child in wave:
                child.terminate()
            deadline = time.monotonic() + self._stop_seconds
            for child in wave:
                child.join(max(0.0, deadline - time.monotonic()))
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def kill(self) -> None:
        """End all processes at once, without draining; what they had acknowledged is on disk. For signal handlers."""
        for child in self._children.values():
            child.kill()

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _port(self, name: str, key: str, configured: int) -> int:
        answered = self._children[name].answer.get(key) if name in self._children else None
        return answered if isinstance(answered, int) else configured

    def _give_up(self, name: str, reason: str) -> None:
        self.failure = f"{name}: {reason}"
        if self._failed is not None:
            self._failed()
