"""One supervised process, with small stand-ins for it."""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwell.cli._supervisor import Backoff, Child, ended

QUICK = Backoff(first=0.01, most=0.05)
READY = 'print(\'{"ready": {"port": 7}}\', flush=True)\n'
UNTIL_STDIN_ENDS = "import sys; sys.stdin.read()\n"


class Watched:
    """A child, and what was heard of it."""

    def __init__(self, code: str, backoff: Backoff) -> None:
        self.lines: queue.Queue[str] = queue.Queue()
        self.failures: queue.Queue[str] = queue.Queue()
        self.child = Child(
            [sys.executable, "-S", "-c", code],
            environment=lambda: dict(os.environ),
            say=self.lines.put,
            failed=self.failures.put,
            backoff=backoff,
        )
        self.child.start()

    def hear(self, part: str) -> str:
        while True:
            line = self.lines.get(timeout=30)
            if part in line:
                return line


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    started: list[Watched] = []

    def start(code: str, backoff: Backoff = QUICK) -> Watched:
        started.append(Watched(code, backoff))
        return started[-1]

    yield start
    for watched in started:
        watched.child.terminate()
        watched.child.join(0.5)
        assert watched.child.pid is None


def test_output_is_passed_on_but_for_the_ready_line(watch: Callable[..., Watched]) -> None:
    watched = watch(
        "import sys; print('one')\nprint('two', file=sys.stderr)\n"
        + READY
        + "print('three', flush=True)\n"
        + UNTIL_STDIN_ENDS
    )
    assert watched.child.ready.wait(30)
    assert watched.child.answer == {"port": 7}
    assert [watched.lines.get(timeout=30) for _ in range(3)] in (["one", "two", "three"], ["two", "one", "three"])


def test_a_child_that_dies_is_started_again(watch: Callable[..., Watched]) -> None:
    watched = watch(READY + UNTIL_STDIN_ENDS)
    assert watched.child.ready.wait(30)
    first = watched.child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert "SIGKILL" in watched.hear("starts again")
    assert watched.child.ready.wait(30)
    assert watched.child.pid not in (None, first)
    assert watched.child.starts == 2


def test_deaths_in_a_row_wait_longer_and_longer(watch: Callable[..., Watched]) -> None:
    watched = watch("raise SystemExit(1)", Backoff(first=0.01, most=0.04))
    waits = [watched.hear("starts again").rsplit(" in ", 1)[1] for _ in range(5)]
    assert waits == ["0.01 s", "0.02 s", "0.04 s", "0.04 s", "0.04 s"]


def test_backoff_starts_over_after_a_healthy_life() -> None:
    backoff = Backoff(first=1, most=8, healthy=60)
    assert backoff.after(None, 0) == 1
    assert backoff.after(1, 59) == 2
    assert backoff.after(8, 59) == 8
    assert backoff.after(8, 60) == 1


def test_bad_settings_are_told_once_and_not_tried_again(watch: Callable[..., Watched]) -> None:
    watched = watch("import sys; print('stepwell: port 1 is taken', file=sys.stderr); sys.exit(2)")
    assert watched.failures.get(timeout=30) == "port 1 is taken"
    watched.child.join(10)
    assert watched.child.starts == 1


def test_after_it_was_ready_once_exit_code_2_is_recovered_from(watch: Callable[..., Watched], tmp_path: Path) -> None:
    mark = tmp_path / "second"
    code = f"import pathlib, sys\nmark = pathlib.Path({str(mark)!r})\n" + READY
    code += "if not mark.exists(): mark.touch(); sys.exit(2)\n" + UNTIL_STDIN_ENDS
    watched = watch(code)
    watched.hear("starts again")
    assert watched.child.ready.wait(30)
    assert watched.failures.empty()


def test_a_deaf_child_is_killed_when_its_time_is_up(watch: Callable[..., Watched]) -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + "while True: signal.pause()"
    watched = watch(code)
    assert watched.child.ready.wait(30)
    watched.child.terminate()
    watched.child.join(0.1)
    assert watched.child.pid is None
    watched.hear("killed")


def test_terminate_during_the_wait_starts_nothing(watch: Callable[..., Watched]) -> None:
    watched = watch("raise SystemExit(1)", Backoff(first=600, most=600))
    watched.hear("starts again in 600 s")
    watched.child.terminate()
    watched.child.join(30)
    assert watched.child.starts == 1


def test_a_ctrl_c_in_the_terminal_does_not_reach_it(watch: Callable[..., Watched]) -> None:
    watched = watch("import os; print('group', os.getpgrp() == os.getpid(), flush=True)\n" + UNTIL_STDIN_ENDS)
    assert watched.hear("group") == "group True"


def test_a_command_that_is_not_there_is_no_crash_of_the_supervisor() -> None:
    failures: queue.Queue[str] = queue.Queue()
    child = Child(["/no/such/program"], environment=dict, say=lambda _line: None, failed=failures.put)
    child.start()
    assert "/no/such/program" in failures.get(timeout=10)


def test_output_that_is_no_text_does_no_harm(watch: Callable[..., Watched]) -> None:
    watched = watch(
        "import sys; sys.stdout.buffer.write(b'\\xff\\xfe ok\\n'); sys.stdout.flush()\n" + READY + UNTIL_STDIN_ENDS
    )
    watched.hear("ok")
    assert watched.child.ready.wait(30)


@pytest.mark.parametrize(("code", "words"), [(0, "exit code 0"), (-15, "SIGTERM"), (-62, "signal 62")])
def test_how_it_ended(code: int, words: str) -> None:
    assert ended(code) == words
