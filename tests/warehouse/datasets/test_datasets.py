"""A dataset version is the same for ever, and says so when it is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord, StoreError
from stepwell.warehouse import BadQuery, Ingest, Warehouse
from stepwell.warehouse._datasets.frozen import fingerprint
from stepwell.warehouse._datasets.registry import Dataset
from stepwell.warehouse._tables.schema import STEPS


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def fill(feed: Any) -> None:
    """Two groups of two trajectories of two turns, rewarded."""
    for group in ("g2", "g1"):
        for name in ("b", "a"):
            trajectory = f"{group}{name}"
            feed.trajectory(trajectory, group_id=group, prompt_id=f"p{group}", policy_version=1)
            feed.exchange([user("q")], "a", trajectory, id=f"{trajectory}-0", ids=(list(range(30)), [1, 2]))
            talk = [user("q"), {"role": "assistant", "content": "a"}, user("r")]
            feed.exchange(talk, "b", trajectory, id=f"{trajectory}-1", ids=([*range(30), 1, 2, 3], [4]))
            feed.feedback(trajectory_id=trajectory, reward=1.0 if name == "a" else 0.0)


@pytest.fixture
def filled(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Warehouse:
    fill(feed)
    ingest()
    return warehouse


def test_versions_count_up_by_name(filled: Warehouse) -> None:
    made = [filled.datasets.create(name, note=f"{name}!") for name in ("math", "math", "code", "math")]
    assert [(item.name, item.version) for item in made] == [("math", 1), ("math", 2), ("code", 1), ("math", 3)]
    assert filled.datasets.list() == sorted(made, key=lambda item: (item.name, item.version))
    assert filled.datasets.get("math") == made[3]
    assert filled.datasets.get("math", 2) == made[1]
    first = made[0]
    assert (first.steps, first.note, first.at_commit, first.filter) == (
        *(8, "math!", 1),
        "trainable AND split = 'train' AND NOT side",
    )
    listed = filled.query("SELECT name, version, fingerprint FROM datasets ORDER BY name, version").to_pylist()
    assert listed[0] == {"name": "code", "version": 1, "fingerprint": made[2].fingerprint}


def test_the_order_is_group_trajectory_turn(filled: Warehouse) -> None:
    filled.datasets.create("d")
    read = filled.datasets.read("d")
    expected = [f"{g}{t}-{turn}.0" for g in ("g1", "g2") for t in ("a", "b") for turn in (0, 1)]
    assert read["step_id"].to_pylist() == expected
    assert read["prompt_ids"].to_pylist()[1] == [*range(30), 1, 2, 3]
    assert read["trajectory_reward"].to_pylist() == [1.0, 1.0, 0.0, 0.0] * 2
    listed = filled.query("SELECT step_id FROM dataset_rows ORDER BY position")
    assert listed["step_id"].to_pylist() == expected


def test_what_is_selected(filled: Warehouse, feed: Any, restarted: Any) -> None:
    feed.step(step_id="eval", split="eval")
    feed.step(step_id="bad", trainable=False)
    restarted()
    assert filled.datasets.create("d").steps == 8, "by default what can be trained on"
    assert filled.datasets.create("d", "trajectory_reward > 0 AND turn = 1 -- the last").steps == 2
    assert filled.datasets.create("d", "split = 'eval' OR NOT trainable").steps == 2
    assert filled.datasets.create("d", "len(prompt_ids) = 30").steps == 4


def test_later_feedback_and_facts_change_nothing(filled: Warehouse, feed: Any, restarted: Any) -> None:
    filled.datasets.create("d")
    before = filled.datasets.read("d")
    for trajectory in ("g1a", "g1b"):
        feed.feedback(trajectory_id=trajectory, reward=-5.0)
        feed.trajectory(trajectory, group_id="other", prompt_id="other", split="eval", policy_version=99)
    feed.feedback(step_id="g1a-0.0", reward=9.0)
    feed.step(trajectory_id="g1a")
    restarted()
    assert filled.datasets.read("d").equals(before)
    changed = filled.datasets.create("d", "step_id = 'g1a-0.0'")
    [row] = filled.datasets.read("d", changed.version).to_pylist()
    assert (row["step_reward"], row["trajectory_reward"]) == (9.0, -5.0)


def test_facts_that_came_late_are_frozen_as_they_were(
    new_feed: Any, warehouse: Warehouse, ingest: Callable[[], int]
) -> None:
    new_feed("proxy").exchange([user("q")], "a", "t")
    ingest()
    opener = new_feed("gateway")
    names = ["prompt_id", "group_id", "split", "policy_version"]
    expected: list[tuple[Any, ...]] = [(None, None, "train", None), ("p", "g", "train", 3)]
    for version, values in enumerate(expected, 1):
        warehouse.datasets.create("d")
        opener.trajectory("t", prompt_id="p", group_id="g", policy_version=3)
        ingest()
        for earlier in range(version):
            [row] = warehouse.datasets.read("d", earlier + 1).select(names).to_pylist()
            assert tuple(row.values()) == expected[earlier], values


def test_the_same_bytes_after_everything(anywhere: Any, feed: Any, spools: Path, drained: Any) -> None:
    """Newer steps, compaction, clean-up, another process' eyes."""
    warehouse = anywhere.open()
    worker = Ingest(warehouse, spools)
    fill(feed)
    drained(worker)
    made = warehouse.datasets.create("d")
    before = warehouse.datasets.read("d")
    for number in range(3):
        feed.step(trajectory_id="g1a", prompt_ids=[*range(30), number], response_ids=[1])
        drained(worker)
    warehouse.maintain(keep=timedelta(0))
    later = anywhere.open(create=False)
    again = later.datasets.read("d", 1)
    assert again.equals(before)
    assert later.datasets.get("d", 1) == made
    assert fingerprint(later.datasets.rows(made), later.datasets.peers("d", 1)) == made.fingerprint
    assert later.datasets.create("d", '"commit" = 1').fingerprint == made.fingerprint, "the same values, frozen again"


def test_the_fingerprint_is_of_every_value(filled: Warehouse) -> None:
    rows = filled.datasets.rows(filled.datasets.create("d"))
    peers = filled.datasets.peers("d")
    original = fingerprint(rows, peers)
    assert original == filled.datasets.get("d").fingerprint
    assert fingerprint(rows.take(pa.array([1, 0, *range(2, 8)])), peers) != original, "order counts"
    assert fingerprint(rows.slice(1), peers) != original
    for name in rows.column_names:
        values = rows[name].to_pylist()
        kind = rows.schema.field(name).type
        other = (
            1.5
            if pa.types.is_floating(kind)
            else 7
            if pa.types.is_integer(kind)
            else ["x"]
            if pa.types.is_list(kind)
            else "x"
        )
        changed = pa.array([other, *values[1:]], kind)
        assert fingerprint(rows.set_column(rows.column_names.index(name), name, changed), peers) != original, name
    nothing = pa.array([None, *rows["prompt_id"].to_pylist()[1:]], pa.string())
    empty = pa.array(["", *rows["prompt_id"].to_pylist()[1:]], pa.string())
    place = rows.column_names.index("prompt_id")
    without, blank = (rows.set_column(place, "prompt_id", column) for column in (nothing, empty))
    assert fingerprint(without, peers) != fingerprint(blank, peers)


def test_the_groups_other_rewards_are_frozen_beside_the_selected_steps(
    warehouse: Warehouse, feed: Any, ingest: Callable[[], None]
) -> None:
    """A baseline is over the whole group: what the filter left out is kept as it was, and is part of the fingerprint."""
    for number, reward in enumerate((1.0, 0.0, None)):
        name = f"t{number}"
        feed.step(trajectory_id=name, group_id="g", prompt_ids=[1, 2, number], response_ids=[1])
        if reward is not None:
            feed.feedback(trajectory_id=name, reward=reward)
    ingest()
    made = warehouse.datasets.create("best", "trajectory_reward > 0")
    assert warehouse.datasets.peers("best").select(["trajectory_id", "trajectory_reward"]).to_pylist() == [
        {"trajectory_id": "t1", "trajectory_reward": 0.0}
    ]
    assert warehouse.query("SELECT step_id FROM dataset_rows").num_rows == made.steps == 1
    feed.feedback(trajectory_id="t1", reward=0.5)
    ingest()
    assert warehouse.datasets.peers("best", 1)["trajectory_reward"].to_pylist() == [0.0]
    assert warehouse.datasets.create("best", "trajectory_reward > 0.9").fingerprint != made.fingerprint
    assert warehouse.datasets.read("best", 1).num_rows == 1


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("response_ids", [1, 3]),
        ("logprobs", [-0.25, -0.75]),
        ("logprobs", None),
        ("prompt_suffix", [29]),
        ("messages_suffix", "[]"),
        ("response", "null"),
        ("tools", "[1]"),
    ],
)
def test_a_changed_step_is_detected(filled: Warehouse, column: str, value: Any) -> None:
    """Somebody else writes into the table behind our back."""
    filled.datasets.create("d")
    filled.datasets.read("d")
    stored = filled.tables["steps"].dataset
    [row] = stored.to_table(filter="step_id = 'g1a-0.0'").to_pylist()
    stored.delete("step_id = 'g1a-0.0'")
    changed = pa.Table.from_pylist([{**row, column: value}], schema=STEPS.schema)
    lance.write_dataset(changed, stored.uri, mode="append")
    with pytest.raises(StoreError, match=r"of \d+ steps is not what was frozen, first g1a-0\.0|cannot be restored"):
        filled.datasets.read("d")


def test_a_changed_row_of_the_dataset_is_detected(filled: Warehouse) -> None:
    filled.datasets.create("d")
    table = filled.tables["dataset_rows"]
    table.refresh()
    table.dataset.update({"trajectory_reward": "5.0"}, where="step_id = 'g1b-0.0'")
    with pytest.raises(StoreError, match="d@1 do not give its fingerprint"):
        filled.datasets.read("d")
    read = filled.datasets.read("d", verify=False)
    assert 5.0 in read["trajectory_reward"].to_pylist()


def test_a_lost_step_is_named(filled: Warehouse) -> None:
    filled.datasets.create("d")
    table = filled.tables["steps"]
    table.refresh()
    table.dataset.delete("step_id = 'g2b-1.0'")
    for verify in (True, False):
        with pytest.raises(StoreError, match="d@1: 1 of 8 steps are not in the warehouse"):
            filled.datasets.read("d", verify=verify)


CREATE = """
import sys
from stepwell.warehouse import Warehouse
if __name__ == "__main__":
    warehouse = Warehouse.open(sys.argv[1], create=False)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(3):
        print(warehouse.datasets.create("d").version, flush=True)
"""


def test_two_processes_create_at_once(filled: Warehouse, tmp_path: Path) -> None:
    script = tmp_path / "create.py"
    script.write_text(CREATE)
    command = [sys.executable, str(script), filled.uri]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        outputs = []
        for process in both:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in both:
            outputs.append(process.communicate(timeout=60)[0])
    finally:
        for process in both:
            if process.poll() is None:
                process.kill()
                process.communicate()
    versions = [int(line) for output in outputs for line in output.split()]
    assert sorted(versions) == [1, 2, 3, 4, 5, 6]
    for version in range(1, 7):
        assert filled.datasets.read("d", version).num_rows == 8


@pytest.mark.parametrize("name", ["", "a@1", "x" * 201])
def test_names_that_would_be_ambiguous(filled: Warehouse, name: str) -> None:
    with pytest.raises(InvalidRecord, match="without '@'"):
        filled.datasets.create(name)


def test_an_empty_selection_is_refused(filled: Warehouse) -> None:
    with pytest.raises(InvalidRecord, match="where: no step satisfies 'turn > 99'"):
        filled.datasets.create("d", "turn > 99")
    with pytest.raises(BadQuery):
        filled.datasets.create("d", "no such column")
    assert filled.datasets.list() == []


@pytest.mark.parametrize(("name", "version", "said"), [("x", None, "no dataset x;"), ("d", 2, "no dataset d@2;")])
def test_what_is_not_there(filled: Warehouse, name: str, version: int | None, said: str) -> None:
    filled.datasets.create("d")
    with pytest.raises(StoreError, match=said):
        filled.datasets.read(name, version)


def test_rows_without_a_registry_entry_belong_to_no_dataset(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It died between its two commits."""

    def die(*_: Any) -> Dataset:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(filled.datasets), "_register", die)
        with pytest.raises(KeyboardInterrupt):
            filled.datasets.create("d")
    assert filled.datasets.list() == []
    assert filled.query("SELECT * FROM dataset_rows").num_rows == 0
    assert filled.datasets.create("d").version == 1


def test_labels_and_rewards_are_frozen(filled: Warehouse, feed: Any, restarted: Any) -> None:
    feed.feedback(step_id="g1a-0.0", label="good")
    feed.feedback(trajectory_id="g1a", label="solved")
    restarted()
    filled.datasets.create("d", "trajectory_id = 'g1a'")
    feed.feedback(step_id="g1a-0.0", retract="label")
    feed.feedback(trajectory_id="g1a", retract="reward")
    restarted()
    filled.datasets.create("d", "trajectory_id = 'g1a'")
    names = ["labels", "trajectory_labels", "trajectory_reward"]
    read = [filled.datasets.read("d", version).select(names).to_pylist() for version in (1, 2)]
    assert [tuple(row.values()) for row in read[0]] == [(["good"], ["solved"], 1.0), ([], ["solved"], 1.0)]
    assert [tuple(row.values()) for row in read[1]] == [([], ["solved"], None), ([], ["solved"], None)]
    [first, second] = filled.datasets.diff("d@1", "d").to_pylist()
    assert (first["step_id"], first["change"], first["columns"]) == (
        "g1a-0.0",
        "changed",
        ["trajectory_reward", "labels"],
    )
    assert (second["columns"], second["trajectory_reward_before"]) == (["trajectory_reward"], 1.0)
    assert filled.datasets.diff("d@2", "d").num_rows == 0


def test_a_dataset_of_an_earlier_version(filled: Warehouse, feed: Any, restarted: Any) -> None:
    """As if it had been made then."""
    then = filled.datasets.create("d")
    feed.feedback(trajectory_id="g1a", reward=-5.0)
    feed.step(trajectory_id="g1a", prompt_ids=[1], response_ids=[2])
    restarted()
    assert filled.datasets.create("d", at=1).fingerprint == then.fingerprint
    assert filled.datasets.create("d", at="d@1").fingerprint == then.fingerprint
    assert filled.datasets.create("d").fingerprint != then.fingerprint
    assert [item.at_commit for item in filled.datasets.list()] == [1, 1, 1, 2]
    with pytest.raises(InvalidRecord, match="there is no commit 9"):
        filled.datasets.create("d", at=9)


def test_side_calls_are_left_out_unless_asked_for(filled: Warehouse, feed: Any, restarted: Any) -> None:
    feed.step(step_id="title", trajectory_id="g1a", prompt_ids=[1], response_ids=[2], metadata={"tags": ["side"]})
    restarted()
    assert filled.datasets.create("d").steps == 8
    assert filled.datasets.create("d", "trainable").steps == 9


def test_where_a_dataset_comes_from(filled: Warehouse, feed: Any, restarted: Any) -> None:
    base = filled.datasets.create("base", note="all")
    named = "step_id IN (SELECT step_id FROM dataset_rows WHERE name = 'base' AND version = 1)"
    filled.datasets.create("d", f"{named} AND trajectory_reward > 0 -- the best")
    found = filled.datasets.lineage("d")
    expected = {
        "dataset": "d@1",
        "at_commit": 1,
        "filter": f"{named} AND trajectory_reward > 0 -- the best",
        "steps": 4,
        "trajectories": 2,
        "groups": 2,
        "policy_versions": [1],
        "models": ["m"],
        "sources": ["engine"],
        "datasets": ["base@1"],
    }
    assert expected.items() <= found.items()
    assert "columns" not in found
    filled.datasets.create("base")
    filled.datasets.create("e", "step_id IN (SELECT step_id FROM dataset_rows WHERE name = 'base')", at="d@1")
    assert filled.datasets.lineage("e")["datasets"] == ["base", "d@1"], "of several versions none is named"
    assert filled.datasets.lineage("base", base.version)["datasets"] == []


def test_deleting(filled: Warehouse) -> None:
    for _ in range(3):
        filled.datasets.create("d")
    kept = filled.datasets.read("d", 3)
    filled.datasets.delete("d", 1)
    filled.datasets.delete("d", 2)
    assert [item.label for item in filled.datasets.list()] == ["d@3"]
    with pytest.raises(StoreError, match="there is no dataset d@1"):
        filled.datasets.delete("d", 1)
    for view in ("datasets", "dataset_rows"):
        assert set(filled.query(f"SELECT version FROM {view}")["version"].to_pylist()) == {3}
    rows = filled.tables["dataset_rows"]
    rows.refresh()
    assert rows.dataset.count_rows("step_id IS NOT NULL") == 8
    assert filled.datasets.read("d").equals(kept)
    filled.datasets.delete("d", 3)
    assert filled.datasets.create("d").version == 4, "a name with its number means one thing for ever"


@pytest.mark.parametrize("failing", ["frozen.remove", "unpin"])
def test_a_deletion_that_was_cut_short_is_finished(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    filled.datasets.create("d", pin=True)

    def fail(*_: Any) -> bool:
        raise StoreError("the store is away")

    with monkeypatch.context() as patch, pytest.raises(StoreError, match="away"):
        patch.setattr(f"stepwell.warehouse._datasets.datasets.{failing}", fail)
        filled.datasets.delete("d", 1, force=True)
    assert filled.datasets.list() == []
    with pytest.raises(StoreError, match="there is no dataset"):
        filled.datasets.get("d", 1)
    filled.datasets.delete("d", 1)
    rows = filled.tables["dataset_rows"]
    rows.refresh()
    assert rows.dataset.count_rows("dataset_id IS NOT NULL") == 0
    assert tags(filled) == [set()] * 3
    with pytest.raises(StoreError, match="there is no dataset d@1"):
        filled.datasets.delete("d", 1)


def test_a_store_that_fails_under_a_dataset_is_named(filled: Warehouse) -> None:
    filled.datasets.create("d")
    cut_files(filled, "dataset_rows")
    opened = Warehouse.open(filled.uri)
    for call in (opened.datasets.read, lambda name: opened.datasets.delete(name, 1)):
        with pytest.raises(StoreError, match=r"dataset_rows\.lance"):
            call("d")
    cut_files(filled, "datasets")
    with pytest.raises(StoreError, match=r"datasets\.lance"):
        Warehouse.open(filled.uri).datasets.list()


def cut_files(warehouse: Warehouse, name: str) -> None:
    for path in Path(warehouse.uri, f"{name}.lance", "data").iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def tags(warehouse: Warehouse) -> list[set[str]]:
    warehouse.refresh()
    return [set(warehouse.tables[name].dataset.tags.list()) for name in ("payloads", "steps", "events")]


def test_pins(filled: Warehouse) -> None:
    filled.datasets.create("d")
    assert tags(filled) == [set()] * 3, "no tag unless it is asked for"
    made = filled.datasets.create("d", pin=True)
    assert made.pinned
    assert tags(filled) == [{"stepwell-d-v2"}] * 3
    filled.maintain(keep=timedelta(0))
    steps = filled.tables["steps"].dataset
    assert steps.checkout_version("stepwell-d-v2").count_rows("ledger IS NULL") == 8
    assert filled.datasets.read("d", 2).num_rows == 8
    with pytest.raises(StoreError, match="d@2 is pinned"):
        filled.datasets.delete("d", 2)
    assert tags(filled) == [{"stepwell-d-v2"}] * 3
    filled.datasets.delete("d", 2, force=True)
    assert tags(filled) == [set()] * 3


def test_pins_are_those_of_the_number_that_is_given(
    filled: Warehouse, local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes the number after the tags were made."""
    from stepwell.warehouse._datasets import datasets as _datasets
    from stepwell.warehouse._datasets.pins import pin as real

    other, asked = local.open(), list[Dataset]()

    def meanwhile(tables: Any, entry: Dataset) -> None:
        real(tables, entry)
        if not asked:
            asked.append(other.datasets.create("d"))

    monkeypatch.setattr(_datasets, "pin_tables", meanwhile)
    assert filled.datasets.create("d", pin=True).version == 2
    assert tags(filled) == [{"stepwell-d-v2"}] * 3


def test_columns_that_come_later_change_nothing(filled: Warehouse) -> None:
    filled.datasets.create("d")
    before = filled.datasets.read("d")
    steps = filled.tables["steps"]
    steps.refresh()
    steps.dataset.add_columns({"later": "'x'"})
    assert filled.datasets.read("d").equals(before)
    assert "later" in filled.steps().schema.names


def test_streaming(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepwell.warehouse._query import stream as _stream

    filled.datasets.create("d")
    whole, steps = filled.datasets.read("d"), filled.steps().read_all()
    monkeypatch.setattr(_stream, "_STEPS", 3)
    with filled.datasets.stream("d") as batches:
        assert [batch.num_rows for batch in batches] == [3, 3, 2]
    assert filled.datasets.read("d").equals(whole)
    assert filled.steps().read_all().equals(steps)
    monkeypatch.setattr(_stream, "_TRAJECTORIES", 1)
    monkeypatch.setattr(_stream, "_LISTED", 1)
    with filled.datasets.stream("d", verify=False) as batches:
        assert [batch.num_rows for batch in batches] == [2, 2, 2, 2]
    monkeypatch.setattr(_stream, "BATCH_BYTES", 4 * 31)
    for stream in (filled.steps(columns=["prompt_ids"]), filled.datasets.stream("d")):
        with stream as batches:
            assert [batch.num_rows for batch in batches] == [1] * 8
    assert filled.steps().read_all().equals(steps)


def test_what_was_forgotten_while_it_was_made(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever forgets has looked for datasets that have it: this one was not there yet."""
    real, kept = filled.datasets._register, filled.datasets.create("kept")

    def forgetting(*args: Any) -> Dataset:
        forgotten = filled.tables["forgotten"]
        forgotten.dataset.delete("false")
        return real(*args)

    monkeypatch.setattr(filled.datasets, "_register", forgetting)
    with pytest.raises(StoreError, match="create it again"):
        filled.datasets.create("math")
    assert filled.datasets.list() == [kept]
    monkeypatch.undo()
    assert filled.datasets.create("math").version == 6, "five were tried, and a number is not given again"
