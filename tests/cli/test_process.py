"""What every process of the stack does around its work."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.cli._process import lock_folder
from stepwell.errors import SettingsError

CODE = """
import signal, sys, pathlib
from stepwell.cli._process import one_process
with one_process("gateway", pathlib.Path(sys.argv[1]), supervised=sys.argv[2] == "yes") as ready:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    ready({"port": 5})
    while True:
        signal.sigtimedwait([], 0.05)
"""


def start(data: Path, supervised: bool) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CODE, str(data), "yes" if supervised else "no"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_supervised_it_says_ready_in_json_and_ends_with_its_standard_input(tmp_path: Path) -> None:
    with start(tmp_path / "data", supervised=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": {"port": 5}}
        process.stdin.close()
        assert process.wait(30) == 7  # its own handler for SIGTERM ran: it drained


def test_alone_it_says_ready_in_its_log_and_stdin_does_not_matter(tmp_path: Path) -> None:
    with start(tmp_path / "data", supervised=False) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert process.stdout is not None
        process.stdin.close()
        while "gateway is ready port=5" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 7
        assert process.stdout.read() == ""


def test_one_process_per_folder(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path / "data", "up")
    with pytest.raises(SettingsError, match="another `stepwell up` is already running"):
        lock_folder(tmp_path / "data", "up")
    other = lock_folder(tmp_path / "data", "proxy")
    lock.release()
    lock_folder(tmp_path / "data", "up").release()
    other.release()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot use the data folder"):
        lock_folder(tmp_path / "file" / "data", "up")
