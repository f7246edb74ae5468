"""How an end is told. The running itself is tested through `stepwell run` (test_run.py)."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from stepwell.cli._child import reason, shell_code


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(0, 0, "exit code 0"), (3, 3, "exit code 3"), (-9, 137, "killed by SIGKILL"), (-62, 190, "killed by signal 62")],
)
def test_codes_and_words(status: int, code: int, words: str) -> None:
    assert shell_code(status) == code
    assert reason(status) == words


def in_its_own_process(code: str) -> str:
    """Other threads of the test run would take the signals."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_signals_are_held_and_the_mask_restored() -> None:
    code = """
import os, signal
from stepwell.cli._child import signals_held
before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
with signals_held() as mask:
    assert mask == before
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.SIGTERM in signal.sigpending()
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
assert signal.SIGTERM not in signal.sigpending()
print("alive")
"""
    assert in_its_own_process(code) == "alive\n"


def test_a_signal_that_arrives_before_the_child_is_delivered_to_it() -> None:
    code = """
import os, signal, sys
from stepwell.cli._child import run_child, signals_held
with signals_held() as mask:
    os.kill(os.getpid(), signal.SIGTERM)
    print(run_child([sys.executable, "-S", "-c", "import time; time.sleep(60)"], os.environ, mask))
"""
    assert in_its_own_process(code) == f"{-signal.SIGTERM}\n"
