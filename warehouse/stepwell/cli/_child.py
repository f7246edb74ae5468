"""Run the agent's command in the foreground, as if `stepwell run` were not there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, repeat

_FORWARDED = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
_KEYBOARD = frozenset({signal.SIGINT, signal.SIGQUIT})
_LOOKS = (0.2, 0.5, 2.0, 10.0, 60.0)
"""Seconds between looks at the child (on Linux only, where a wait can have an end)."""

NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""The exit codes of a shell for a command that is not there, and for one that cannot be run (POSIX, Shell, 2.8.2)."""


@contextmanager
def signals_held() -> Iterator[set[signal.Signals]]:
    """Hold the signals that are for the agent until `run_child` takes them; gives the mask as it was.

    Without this, a signal between the trajectory's beginning and its end would leave it open for ever.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
    old = signal.signal(
        signal.SIGCHLD, lambda _number, _frame: None
    )  # ignored by default, which some systems do before holding
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        signal.signal(signal.SIGCHLD, old)
        for number in _FORWARDED:  # those that came too late were for the agent, which is gone
            if number in signal.sigpending():
                signal.sigwait({number})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    mask: set[signal.Signals],
    look: Callable[[int], None] | None = None,
) -> int:
    """Run `command` with our standard streams and pass signals on to it; its exit status as `os.waitstatus_to_exitcode` gives it.

    To be called within `signals_held`, which gives `mask`. The child is in our process group, so the terminal's Ctrl-C and
    Ctrl-Z reach it as they would without us. `look` is called with its pid now and then while it runs, ever less often.

    Raises:
        OSError: the command cannot be started.
    """
    child = os.posix_spawnp(
        command[0],
        list(command),
        dict(environment),
        setsigmask=mask,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them; a program expects their default
    )
    pauses = chain(_LOOKS, repeat(_LOOKS[-1]))
    while True:
        number, by_keyboard = _next_signal(next(pauses) if look else None)
        if look and not number:
            look(child)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if number in _FORWARDED and not by_keyboard:
            os.kill(child, number)


def _next_signal(seconds: float | None) -> tuple[int, bool]:
    """Wait for a signal; also whether the terminal sent it, and so sent it to the child as well. 0 when none came in time."""
    held = _FORWARDED | {signal.SIGCHLD}
    if sys.platform == "linux":
        info = signal.sigwaitinfo(held) if seconds is None else signal.sigtimedwait(held, seconds)
        if info is None:
            return 0, False
        return (
            info.si_signo,
            info.si_signo in _KEYBOARD and info.si_code > 0,
        )  # above 0: from the kernel, not from a process
    number = signal.sigwait(held)
    return number, number in _KEYBOARD and _in_foreground()


def _in_foreground() -> bool:
    """Whether a key pressed in our terminal would reach us: the best guess where the system does not say who sent a signal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def shell_code(status: int) -> int:
    """The exit code a shell would give: 128 + n for death by signal n."""
    return 128 - status if status < 0 else status


def reason(status: int) -> str:
    """`exit code 3`, `SIGKILL`: how it ended, for a reader."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
