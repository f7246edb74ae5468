"""A spool that somebody has locked, and one without room: who hands something in is not held up, what is lost is counted, and it passes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stepwell.errors import SpoolError
from stepwell.spool import Entry, Record, Spool, SpoolReader, SpoolWriter
from stepwell.spool import _writer as writer_module

EntryOf = Callable[..., Entry]
Read = Callable[[Path], list[Record]]


class Impatient(Spool):
    """Waits for the lock on the database for a few milliseconds only, and counts how often."""

    tried = 0

    def append(self, entries: list[Entry]) -> list[int]:  # type: ignore[override]
        self._db.execute("PRAGMA busy_timeout = 5")
        self.tried += 1
        self.before(self.tried)
        return super().append(entries)

    def before(self, tried: int) -> None:
        """What happens before it is tried for that time."""


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else holds the lock: a backup, a virus scanner, a curious person."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def lost_of(path: Path) -> int:
    with closing(SpoolReader(path)) as reader:
        return reader.lost()


class Agent:
    """Hands in what a call leaves, as the proxy does; what is refused is counted as lost."""

    def __init__(self, writer: SpoolWriter) -> None:
        self.writer = writer
        self.refused: list[SpoolError] = []

    def call(self, entry: Entry) -> None:
        self.writer.post(entry, self._lost)

    def _lost(self, error: SpoolError) -> None:
        self.refused.append(error)
        self.writer.count_loss()


def test_a_lock_that_passes_costs_nothing(path: Path, entry: EntryOf, records: Read) -> None:
    spool = Impatient(path)
    with locked(path) as other:
        spool.before = lambda tried: other.rollback() if tried == 3 else None  # type: ignore[method-assign]
        with closing(SpoolWriter(spool)) as writer:
            agent = Agent(writer)
            for number in range(5):
                agent.call(entry(f"{number}"))
            writer.flush(60)
            assert not agent.refused and writer.pending == 0
    assert [record.id for record in records(path)] == ["0", "1", "2", "3", "4"]
    assert lost_of(path) == 0


def test_one_that_stays_is_given_up_and_told(path: Path, entry: EntryOf, records: Read) -> None:
    spool = Impatient(path)
    with closing(SpoolWriter(spool, linger=0.05)) as writer:
        agent = Agent(writer)
        with locked(path):
            for number in range(40):
                agent.call(entry(f"{number}"))
            with pytest.raises(SpoolError, match="locked"):
                writer.submit(entry("waited for")).result(60)
            assert len(agent.refused) == 40 == writer.lost, "all of them are told, and none is left behind"
            assert spool.tried <= 41 and writer.pending == 0
            assert spool.tried % writer_module._LOCKED == 0, "not each for itself: a lock is in everybody's way"
            assert lost_of(path) == 0, "that cannot be written either"
        agent.call(entry("after"))
        writer.flush(60)
    assert [record.id for record in records(path)] == ["after"]
    assert lost_of(path) == 40, "seen by doctor and metrics"


def test_memory_is_bounded_meanwhile(path: Path, entry: EntryOf, records: Read) -> None:
    spool = Impatient(path)
    with locked(path) as other, closing(SpoolWriter(spool, max_pending=50_000)) as writer:

        def before(_: int) -> None:
            if len(agent.refused) >= 90 and other.in_transaction:
                other.rollback()

        spool.before = before  # type: ignore[assignment,method-assign]
        agent = Agent(writer)
        for number in range(100):
            agent.call(entry(f"{number}", 5_000))
        assert 90 <= len(agent.refused) < 100 and writer.pending <= 50_000, "refused at once"
        writer.flush(60)
        kept = 100 - writer.lost
    assert len(records(path)) == kept <= 10 and lost_of(path) == 100 - kept


def test_the_end_does_not_wait_for_a_lock(path: Path, entry: EntryOf) -> None:
    spool = Impatient(path)
    with locked(path):
        writer = SpoolWriter(spool, linger=60)
        agent = Agent(writer)
        for number in range(20):
            agent.call(entry(f"{number}"))
        writer.close()
        assert len(agent.refused) == 20 and spool.tried == 1
    with Spool(path) as again:  # the lock was given back all the same
        assert again.append([entry("x")]) == [1]


def test_a_full_database_passes_when_something_is_dropped(path: Path, entry: EntryOf, records: Read) -> None:
    spool = Spool(path)
    with closing(SpoolWriter(spool)) as writer:
        agent = Agent(writer)
        agent.call(entry("first", 160_000))
        writer.flush(60)
        (pages,) = spool._db.execute("PRAGMA page_count").fetchone()
        spool._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        agent.call(entry("large", 160_000))
        agent.call(entry("small"))
        writer.flush(60)
        assert [str(error).endswith("full") for error in agent.refused] == [True]
        assert [record.id for record in records(path)] == ["first", "small"], "a large neighbour takes nobody along"
        spool.trim(1)
        agent.call(entry("large again", 160_000))
        writer.flush(60)
    assert [record.id for record in records(path)] == ["small", "large again"]
    assert lost_of(path) == 1


FILE_LIMIT = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
writer, refused = SpoolWriter(Spool(path, reserve=0)), []
def lost(error):
    refused.append(error)
    writer.count_loss()
for number in range(40):
    writer.post(Entry(str(number), "k", b"{}", b"x" * 20_000), lost)
    writer.flush(60)
assert 0 < len(refused) < 40, len(refused)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(len(refused), *writer.submit(Entry("after", "k")).result(60))
before = len(refused)
writer.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processes are POSIX")
def test_a_file_that_may_not_grow(
    path: Path, child: Callable[..., subprocess.Popen[str]], entry: EntryOf, records: Read
) -> None:
    """SQLite meets the error of the system in the middle of writing, and everything before is as it was."""
    out, _ = child(FILE_LIMIT, path).communicate()
    refused, number = map(int, out.split())
    there = records(path)
    assert number == len(there) == 40 - refused + 1, "no number is used up by what was refused"
    assert [len(record.body) for record in there] == [20_000] * (40 - refused) + [0]
    assert lost_of(path) == refused
    with Spool(path) as again:
        (said,) = again._db.execute("PRAGMA integrity_check").fetchone()
        assert said == "ok" and again.append([entry("next")]) == [number + 1]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        pytest.skip(f"there is no mount: {error}")
    if done.returncode:
        pytest.skip(f"nothing may be mounted here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("reserve", [1 << 20, 0])
def test_a_full_disk(small_disk: Path, entry: EntryOf, records: Read, reserve: int) -> None:
    """Also without the room that is left free for trimming, where the system says that there is none."""
    path = small_disk / "p.db"
    with closing(SpoolWriter(Spool(path, reserve=reserve))) as writer:
        agent = Agent(writer)
        other = small_disk / "somebody else's"
        other.write_bytes(b"x" * (1 << 20))
        for number in range(100):
            agent.call(entry(f"{number}", 50_000))
            if number % 10 == 0:
                writer.flush(60)
        writer.flush(60)
        lost = len(agent.refused)
        assert 0 < lost < 100
        assert len(records(path)) == 100 - lost
        other.unlink()
        agent.call(entry("after", 1000))
        writer.flush(60)
        assert len(agent.refused) == lost
        assert records(path)[-1].id == "after"
    assert lost_of(path) == lost
