"""Spools in a folder of the test, and child processes that use them and can be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.spool import Entry, Record, SpoolReader


def make_entry(id: str, size: int = 0, *, ref: str | None = None, opens: bool = False) -> Entry:
    return Entry(id=id, kind="k", head=b"{}", body=b"x" * size, ref=ref, opens=opens)


@pytest.fixture
def entry() -> Callable[..., Entry]:
    """An entry: `entry(id, size, ref=…, opens=…)`."""
    return make_entry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a spool may be made, in a folder whose name would be something else in a URI."""
    return tmp_path / "a folder?x=1#y%20" / "p.db"


@pytest.fixture
def records() -> Callable[[Path], list[Record]]:
    """Everything that a spool holds, as a reader sees it."""

    def read(path: Path) -> list[Record]:
        with closing(SpoolReader(path)) as reader:
            return reader.read(0, limit=1_000_000)

    return read


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run code in another process, with `Entry`, `Spool`, `SpoolWriter` and `path` at hand; it is killed when the test ends."""
    running: list[subprocess.Popen[str]] = []

    def start(code: str, path: Path) -> subprocess.Popen[str]:
        head = "import sys; from pathlib import Path; from stepwell.spool import *; path = Path(sys.argv[1])\n"
        process = subprocess.Popen(
            [sys.executable, "-c", head + code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()
