"""A forget that is killed, wherever that is, and the next one, which finishes it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.stores import Place
from tests.warehouse.forget.scene import SECRET, forget, found, tell, user

from stepwell.errors import StoreError
from stepwell.spool import Spool
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._encode.payloads import PayloadMemory, outsourced
from stepwell.warehouse._forget import forget as forgetting
from stepwell.warehouse._forget import purge, tables
from stepwell.warehouse._forget.begun import Begun
from stepwell.warehouse._forget.litter import Litter
from stepwell.warehouse._forget.plan import Plan
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._upkeep.indices import make
from stepwell.warehouse._verify.verify import verify

WHERE = "step_id IN (SELECT target_id FROM feedback WHERE text = 'delete me')"
"""Selects nothing any more once the events are deleted."""

STAGES = [
    ("bury", 1),
    ("mark", 1),
    ("replace", 1),
    ("delete", 4),  # steps
    ("scrub", 5),
    ("write", 2),
    ("delete_rows", 1),
    ("remove", 1),
    ("purge_spools", 1),
]
"""After which call of what it is killed."""


class Killed(BaseException):
    """Nothing in the code catches it."""


@pytest.fixture(scope="module")
def _filled() -> dict[str, Any]:
    return {}


@pytest.fixture
def filled(
    data: Path,
    new_feed: Callable[..., Any],
    local: Place,
    spools: Path,
    drained: Callable[[Ingest], int],
    _filled: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """A trajectory to be forgotten and one of which a step is, in tables, a dataset with pins, an index, and files of no version."""
    if not _filled:
        _filled.update(fill(new_feed, local, spools, drained), root=tmp_path_factory.mktemp("filled") / "data")
        shutil.copytree(data, _filled["root"])
    for folder in ("warehouse", "spool"):
        shutil.rmtree(data / folder)
        shutil.copytree(_filled["root"] / folder, data / folder)
    return _filled


def fill(new_feed: Callable[..., Any], local: Place, spools: Path, drained: Callable[[Ingest], int]) -> dict[str, Any]:
    feed = new_feed()
    bad, mixed = tell(feed, "bad-one"), tell(feed, "mixed", text="fine")
    for step in (*bad, mixed[0]):
        feed.feedback(step_id=step, label="delete me", author=SECRET)
    drained(Ingest(local.open(), spools))
    feed.close()
    warehouse = local.open()
    warehouse.datasets.create("d", "true", note="with bad-one", pin=True)
    make(warehouse.tables["steps"].dataset, "steps", "trajectory_id", None)
    # Of a flush that was never announced: its payload is in no other file.
    _, apart = outsourced(b'{"role":"user","content":[{"type":"text","text":"%b"}]}' % (SECRET.encode() * 300))
    payloads, steps = warehouse.tables["payloads"], warehouse.tables["steps"]
    payloads.write(PayloadMemory().rows([(apart, "nobody", 1)]))
    lost = {"step_id": "lost", "trajectory_id": "bad-one", "payload_ids": [apart[0].payload_id]}
    steps.write(pa.Table.from_pylist([lost], schema=steps.spec.schema))
    return {"bad": bad, "mixed": mixed, "before": warehouse.whole(mixed[1:])}


def killing(patch: pytest.MonkeyPatch, name: str, count: int) -> list[str]:
    """Die after the call of that number; the calls so far."""
    calls: list[str] = []
    owners: dict[str, Any] = {
        "write": Begun,
        "finish": Begun,
        "find": Litter,
        "remove": Litter,
        "clear": purge,
        "delete_rows": purge,
    }
    owners |= dict.fromkeys(("replace", "delete", "scrub"), tables)
    owner: Any = owners.get(name, forgetting)
    real = getattr(owner, name)

    def call(*values: Any, **more: Any) -> Any:
        answer = real(*values, **more)
        calls.append(name)
        if len(calls) == count:
            raise Killed
        return answer

    patch.setattr(owner, name, call)
    return calls


@pytest.mark.parametrize(("name", "count"), STAGES)
def test_the_same_command_again_finishes_it(data: Path, filled: dict[str, Any], name: str, count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        calls = killing(patch, name, count)
        with pytest.raises(Killed):
            forget(data, where=WHERE)
        assert len(calls) == count
    done = forget(data, where=WHERE, patience=5)
    assert found(data, SECRET, "bad-one", *filled["bad"], filled["mixed"][0]) == []
    assert (done.trajectories, done.steps, done.datasets, done.resumed) == (["bad-one"], 4, ["d@1"], 1)
    warehouse = Warehouse.open(data / "warehouse")
    said = [str(finding) for finding in verify(warehouse.uri, {}, deep=True).findings]
    assert said == ["note  d@1: incomplete, 4 steps forgotten"]
    whole = warehouse.whole(filled["mixed"][1:])
    for column in ("prompt_ids", "messages", "response", "content_hash"):
        assert whole[column].to_pylist() == filled["before"][column].to_pylist(), column
    assert objects_at(warehouse.uri, {}).listed("_forget") == []


def test_it_is_finished_by_a_run_that_asks_for_something_else(data: Path, filled: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, "delete", 4)
        with pytest.raises(Killed):
            forget(data, where=WHERE)
    report = verify(str(data / "warehouse"), {})
    assert any("`stepwell forget` was interrupted" in finding.what for finding in report.findings if finding.wrong)
    seen = []
    work = forgetting.Forget(Warehouse.open(data / "warehouse"), data, patience=5)
    assert work.run(["mixed"], confirm=lambda would: bool(seen.append(would))) is None  # type: ignore[func-returns-value]
    assert (seen[0].resumed, seen[0].trajectories) == (1, ["bad-one", "mixed"]), "it asks about all of it"
    assert objects_at(str(data / "warehouse"), {}).listed("_forget"), "and does nothing where the answer is no"
    done = forget(data, "mixed", patience=5)
    assert (done.resumed, done.trajectories) == (1, ["bad-one", "mixed"])
    assert found(data, SECRET, "bad-one", "mixed", *filled["bad"], *filled["mixed"]) == []
    with pytest.raises(StoreError, match="d@1 is incomplete, 6 steps forgotten"):
        Warehouse.open(data / "warehouse").datasets.read("d")


def test_what_cannot_be_read_is_said(data: Path) -> None:
    objects = objects_at(str(data / "warehouse"), {})
    begun = Begun(objects)
    begun.write("a", Plan(steps={"s"}, datasets={"d": (1, 2)}))
    assert begun.read() == {"a": Plan(steps={"s"}, datasets={"d": (1, 2)})}
    begun.finish("a")
    assert begun.read() == {}
    for damaged, match in ((b"{", "cannot be read"), (b'{"format": 9}', "newer version")):
        objects.put("_forget/b", damaged)
        with pytest.raises(StoreError, match=match):
            forget(data, "t")


def test_a_dead_spool_is_still_purged(data: Path, spools: Path, feed: Any, ingest: Callable[[], int]) -> None:
    """Killed before the spools were asked, with nothing else left to do."""
    feed.exchange([user(SECRET)], "a", "bad")
    feed.close()
    ingest()
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, "mark", 1)
        with pytest.raises(Killed):
            forget(data, "bad")
    forget(data, "bad", patience=5)
    with Spool(spools / "proxy.db") as spool:
        assert spool.bytes == 0
    assert found(data, SECRET) == []
