"""Opening, waiting, reading whole steps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lancedb
import pytest

from stepwell.errors import StoreError
from stepwell.spool import marks
from stepwell.warehouse import BadQuery, Warehouse
from stepwell.warehouse._tables.schema import TABLES


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_a_new_warehouse_is_empty_and_complete(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "deep" / "er")
    assert sorted(path.name for path in (tmp_path / "deep" / "er").iterdir()) == sorted(
        f"{spec.name}.lance" for spec in TABLES
    )
    for view in ("steps", "events", "feedback", "trajectories", "groups", "quarantine", "datasets", "dataset_rows"):
        assert warehouse.query(f"SELECT * FROM {view}").num_rows == 0
    assert warehouse.steps().read_all().num_rows == 0
    assert warehouse.whole([]).num_rows == 0
    assert warehouse.marks() == {}


def test_opening_without_creating(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no warehouse at"):
        Warehouse.open(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


def test_a_half_made_warehouse_is_completed_only_when_creating(local: Any) -> None:
    import shutil

    shutil.rmtree(f"{local.uri}/events.lance")
    with pytest.raises(StoreError, match=r"there is no table .*events\.lance"):
        local.open(create=False)
    local.open()
    assert local.open(create=False).query("SELECT * FROM events").num_rows == 0


def test_a_place_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot make the warehouse folder"):
        Warehouse.open(tmp_path / "file")


def test_two_processes_make_one_warehouse(tmp_path: Path) -> None:
    code = "import sys; from stepwell.warehouse import Warehouse; Warehouse.open(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path / "w")]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    for spec in TABLES:
        assert lance.dataset(str(tmp_path / "w" / f"{spec.name}.lance")).count_rows() == 1


def test_lancedb_reads_the_tables(anywhere: Any, feed: Any, spools: Path, drained: Any) -> None:
    from stepwell.warehouse import Ingest

    feed.exchange([user("q")], "a", "t", ids=([5, 6], [7]))
    drained(Ingest(anywhere.open(), spools))
    table = lancedb.connect(anywhere.uri, storage_options=dict(anywhere.options)).open_table("steps")
    [row] = table.search().where("ledger IS NULL").to_list()
    assert (row["trajectory_id"], row["prompt_suffix"], row["response_ids"]) == ("t", [5, 6], [7])


def test_tables_have_the_format_that_was_chosen(warehouse: Warehouse) -> None:
    for table in warehouse.tables.values():
        assert table.dataset.data_storage_version == "2.2"
        assert table.dataset.has_stable_row_ids


def test_the_barrier(feed: Any, ingest: Callable[[], int], warehouse: Warehouse, spools: Path) -> None:
    feed.step(step_id="a")
    accepted = marks(spools)
    assert warehouse.wait_for(accepted, 0) == accepted
    assert warehouse.wait_for({}, 0) == {}
    ingest()
    assert warehouse.wait_for(accepted, 60) == {}
    assert warehouse.wait_for({**accepted, "nobody": 1}, 0) == {"nobody": 1}
    assert warehouse.whole(["a"]).num_rows == 1, "what was waited for can be read"


def test_commits_are_looked_at_before_the_rows(
    feed: Any, ingest: Callable[[], int], local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit in the middle of refreshing: the round is seen whole, or not at all."""
    from stepwell.warehouse._tables.ledger import LedgerTable

    reader = local.open()
    feed.step(trajectory_id="t")
    feed.trajectory("t")
    feed.trajectory("t", "completed", marks={feed.producer: 1})
    real, pending = LedgerTable.refresh, [True]

    def refresh(self: LedgerTable) -> None:
        real(self)
        if pending and self.spec.name == "commits":
            pending.pop()
            ingest()

    with monkeypatch.context() as patch:
        patch.setattr(LedgerTable, "refresh", refresh)
        seen = reader.query("SELECT state, steps FROM trajectories").to_pylist()
    assert seen == []
    assert reader.query("SELECT state, steps FROM trajectories").to_pylist() == [{"state": "completed", "steps": 1}]


@pytest.fixture
def filled(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Warehouse:
    for name in ("b", "a"):
        feed.exchange([user("q")], "a", name, id=f"{name}0", ids=(list(range(20)), [1]))
        talk = [user("q"), {"role": "assistant", "content": "a"}, user("r")]
        feed.exchange(talk, "b", name, id=f"{name}1", ids=([*range(20), 1, 2], [3]))
    ingest()
    return warehouse


def test_steps_in_training_order(filled: Warehouse) -> None:
    steps = filled.steps().read_all()
    assert steps["step_id"].to_pylist() == ["a0.0", "a1.0", "b0.0", "b1.0"]
    assert [len(ids) for ids in steps["prompt_ids"].to_pylist()] == [20, 22, 20, 22]
    assert steps["logprobs"].to_pylist() == [[-0.25]] * 4
    assert json.loads(steps["messages"][1].as_py())[2]["content"][0]["text"] == "r"
    assert not {"ledger", "base_id", "prompt_suffix"} & set(steps.column_names)


def test_a_condition_and_columns(filled: Warehouse) -> None:
    steps = filled.steps("turn = 1 OR trajectory_id = 'b' -- comment", columns=["messages", "step_id"]).read_all()
    assert steps.column_names == ["messages", "step_id"]
    assert steps["step_id"].to_pylist() == ["a1.0", "b0.0", "b1.0"]
    assert filled.steps(columns=["turn"]).read_all()["turn"].to_pylist() == [0, 1, 0, 1]
    with pytest.raises(BadQuery):
        filled.steps("nonsense = 1")


def test_whole_keeps_the_order_asked_for(filled: Warehouse) -> None:
    ids = ["b1.0", "gone", "a0.0", "__ledger__", "a1.0"]
    assert filled.whole(ids)["step_id"].to_pylist() == ["b1.0", "a0.0", "a1.0"]
    assert filled.whole(["gone"]).num_rows == 0
