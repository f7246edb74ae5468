"""A forget that is killed, wherever that is, and the next one, which finishes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.warehouse.forget.scene import SECRET, WHERE, forget, found, user

from stepwell.errors import StoreError
from stepwell.spool import Spool
from stepwell.warehouse import Warehouse
from stepwell.warehouse._forget import forget as forgetting
from stepwell.warehouse._forget import purge, tables
from stepwell.warehouse._forget.begun import Begun
from stepwell.warehouse._forget.litter import Litter
from stepwell.warehouse._forget.plan import Plan
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._verify.verify import verify

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


def test_pins_that_came_after_the_rows_went_do_not_keep_their_bytes(data: Path, filled: dict[str, Any]) -> None:
    """What is deleted and not yet written over is still in the files of the version that is pinned."""
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, "clear", 1)
        with pytest.raises(Killed):
            forget(data, where=WHERE)
    warehouse = Warehouse.open(data / "warehouse")
    made = warehouse.datasets.create("pinned", "true", pin=True)
    done = forget(data, where=WHERE, patience=5)
    assert "steps:stepwell-pinned-v1" in done.tags
    assert found(data, SECRET, "bad-one", *filled["bad"], filled["mixed"][0]) == []
    assert warehouse.datasets.read("pinned").num_rows == made.steps == 2


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
