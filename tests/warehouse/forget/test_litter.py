"""What others have under way while something is forgotten stays whole; what nobody will commit any more goes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.stores import Place
from tests.warehouse.forget.scene import LONG, SECRET, forget, found, tell, user

from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._commit.committer import Committer
from stepwell.warehouse._forget import forget as forgetting
from stepwell.warehouse._forget.forget import Forget
from stepwell.warehouse._store.flush import Flush, Inbox
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._tables.table import LEDGER_KEY
from stepwell.warehouse._verify.verify import verify


@pytest.fixture
def elsewhere(tmp_path: Path, feed: Any) -> Iterator[tuple[Path, Any]]:
    """The spools of another machine, and a producer there."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    other = type(feed)(folder, "other")
    yield folder, other
    other.close()


def meanwhile(patch: pytest.MonkeyPatch, name: str, work: Callable[[], object], *, after: bool = False) -> None:
    """Something that another process does when the first call of `name` comes."""
    real, done = getattr(forgetting, name), list[int]()

    def call(*values: Any, **more: Any) -> Any:
        if not after and not done:
            done.append(1)
            work()
        answer = real(*values, **more)
        if not done:
            done.append(1)
            work()
        return answer

    patch.setattr(forgetting, name, call)


def half(place: Place, table: str, flush: Flush) -> None:
    """A committer that has come as far as this table."""
    reached = {producer: upto for producer, (_, upto) in flush.ranges.items()}
    place.open().tables[table].commit(flush.fragments[table], reached)


def remote(place: Place) -> None:
    """As on another machine, where nobody knows of the data folder."""
    assert Forget(place.open(), None, patience=10).run(["bad"]) is not None


@pytest.mark.parametrize("how", ["written", "announced", "half committed"])
def test_a_payload_that_is_put_again_meanwhile_stays(
    local: Place, feed: Any, ingest: Callable[[], int], elsewhere: tuple[Path, Any], how: str
) -> None:
    """By somebody whose step is not committed yet, and who knows that the other one is forgotten."""
    tell(feed, "bad")
    ingest()
    folder, other = elsewhere
    inbox, held = Inbox(objects_at(local.uri, {})), list[Flush]()

    def put_again() -> None:
        step = other.exchange([user(LONG)], "mine", "good")
        assert Ingest(local.open(), folder).flush() > 0
        [flush] = inbox.read(inbox.keys())
        held.append(flush)
        assert flush.fragments["payloads"], step
        if how == "written":
            inbox.remove([flush.key])
        elif how == "half committed":
            half(local, "payloads", flush)

    with pytest.MonkeyPatch.context() as patch:
        meanwhile(patch, "mark", put_again)
        remote(local)
    if how == "written":
        inbox.announce(held[0])
    assert Committer(local.open(), inbox).run_once() == 1
    assert verify(local.uri, {}, deep=True).findings == []
    texts = local.open().steps(columns=["messages"]).read_all()["messages"].to_pylist()
    assert len(texts) == 1 and SECRET in texts[0]


def test_what_comes_in_while_it_is_buried_goes_as_well(
    local: Place, data: Path, feed: Any, ingest: Callable[[], int], elsewhere: tuple[Path, Any]
) -> None:
    """A step that nobody had seen when it was planned; then somebody's word on it, by a writer that knows of all the rest."""
    tell(feed, "bad")
    ingest()
    folder, other = elsewhere
    late, inbox = list[str](), Inbox(objects_at(local.uri, {}))
    worker = Ingest(local.open(), folder)

    def one_more() -> None:
        late.append(other.exchange([user("late")], "late", "bad"))
        assert worker.flush() > 0
        assert Committer(local.open(), inbox).run_once() == 1
        assert worker.settle()

    def and_a_word_on_it() -> None:
        other.feedback(step_id=late[0], label=SECRET)
        assert worker.flush() > 0
        half(local, "events", inbox.read(inbox.keys())[0])

    with pytest.MonkeyPatch.context() as patch:
        meanwhile(patch, "bury", and_a_word_on_it, after=True)
        meanwhile(patch, "bury", one_more)
        remote(local)
    assert inbox.keys() == []
    assert found(data / "warehouse", SECRET, *late) == []
    assert verify(local.uri, {}, deep=True).findings == []


def test_files_of_no_version(local: Place, data: Path, feed: Any, ingest: Callable[[], int]) -> None:
    steps = tell(feed, "bad")
    mine = tell(feed, "good", text="fine", turns=2)
    ingest()
    tables = local.open().tables
    ids = {"events": {"event_id": "e", "target_id": steps[0]}, "steps": {"step_id": "x", "trajectory_id": "bad"}}
    ids["trajectories"] = {"trajectory_id": "good"}
    for name, row in ids.items():
        tables[name].write(pa.Table.from_pylist([row], schema=tables[name].spec.schema))
    left = {name: newest(local, name) for name in ids}
    folder = Path(local.uri) / "steps.lance"
    change = folder / "_transactions" / "9-0.txn"
    change.write_bytes(b"\x0a\x12step_id IN ('%b')" % steps[0].encode())
    another = folder / "_transactions" / "9-1.txn"
    another.write_bytes(b"\x0a\x12step_id IN ('%b')" % mine[1].encode())
    old, new = folder / "_indices" / "a" / "page.lance", folder / "_indices" / "b" / "page.lance"
    for path in (old, new):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"?")
    empty, cut = folder / "data" / ".tmpAbc123", folder / "data" / ".tmpDef456"
    empty.touch()  # written by somebody who was killed before the first byte: Lance panics over it
    cut.write_bytes(b"LANC")
    abandoned = folder / "data" / ".tmpGhi789"
    abandoned.write_bytes(b"LANC")
    os.utime(abandoned, (time.time() - 7200, time.time() - 7200))
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    done = forget(data, "bad", where=f"step_id = '{mine[0]}'")
    assert not any(path.exists() for path in (left["events"], left["steps"], change, old, abandoned))
    assert left["trajectories"].exists(), "of a trajectory that stays: whoever makes its summary may be at it"
    assert another.exists()
    assert len(done.litter) == 5
    assert sorted(done.unreadable_files) == ["steps.lance/_indices/b/page.lance", "steps.lance/data/.tmpDef456"]
    assert found(Path(local.uri), SECRET, *steps) == []


def test_a_table_that_was_changed_meanwhile(local: Place, data: Path, feed: Any, ingest: Callable[[], int]) -> None:
    """A compaction that began before has the rows, and must not bring them back."""
    from lance.optimize import Compaction

    tell(feed, "bad")
    ingest()
    tell(feed, "good", text="fine")
    ingest()
    dataset = local.open().tables["steps"].dataset
    home = local.open().tables["steps"].home()
    options: Any = {"excluded_fragment_ids": [home], "target_rows_per_fragment": 1000}
    task = Compaction.plan(dataset, options).tasks[0]
    done = task.execute(dataset)
    forget(data, "bad")
    with pytest.raises(OSError, match=r"(?i)conflict"):
        Compaction.commit(dataset, [done])
    assert found(Path(local.uri), SECRET) == [], "its file, too"
    assert LEDGER_KEY not in Warehouse.open(local.uri).query("SELECT step_id FROM steps")["step_id"].to_pylist()


def newest(place: Place, name: str) -> Path:
    return max((Path(place.uri) / f"{name}.lance" / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
