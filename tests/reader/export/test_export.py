"""What is exported is what the reader gives: the same loss terms in every format and way to merge, with a card that tells the rest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest

from stepwell.errors import InvalidRecord, StoreError
from stepwell.reader import BatchReader, Exported, export_dataset
from stepwell.warehouse import Warehouse

SETTINGS: dict[str, Any] = {"advantage": "grpo", "groups_per_step": 2, "on_error": "skip"}
Term = tuple[int, str, int, int, float, float, float]
"""optimizer step, step, position, id, weight, old logprob, advantage"""


def expected(warehouse: Warehouse) -> Counter[Term]:
    """From the reader's own arrays, unmerged."""
    found: Counter[Term] = Counter()
    reader = BatchReader(warehouse, dataset="d", seed=None, merge="none", **SETTINGS)
    for batch in reader:
        names = dict(zip(batch.steps["step_index"].to_pylist(), batch.steps["step_id"].to_pylist(), strict=True))
        for pack in batch:
            assert pack.old_logprob is not None and pack.advantage is not None
            at = pack.target_position[pack.occurrence_target]
            steps = [names[index] for index in pack.step_index[pack.occurrence_step].tolist()]
            columns = (pack.position_ids[at], pack.input_ids[at], pack.weight, pack.old_logprob, pack.advantage)
            values = zip(steps, *(column.tolist() for column in columns), strict=True)
            found.update((batch.number, *value) for value in values)
    return found


def terms_of_sequence(row: dict[str, Any]) -> list[Term]:
    return [
        (row["optimizer_step"], row["step_ids"][step], place, row["input_ids"][place], *due)
        for place, (step, *due) in enumerate(
            zip(row["step"], row["weight"], row["old_logprob"], row["advantage"], strict=True)
        )
        if row["loss_mask"][place]
    ]


def terms_of_pack(row: dict[str, Any]) -> list[Term]:
    return [
        (
            *(row["optimizer_step"], row["step_ids"][step]),
            *(row["position_ids"][row["target_position"][target]], row["target_id"][target]),
            *(row["weight"][term], row["old_logprob"][term], row["advantage"][term]),
        )
        for term, (target, step) in enumerate(zip(row["occurrence_target"], row["occurrence_step"], strict=True))
    ]


def read(done: Exported, schema: pa.Schema | None = None) -> pa.Table:
    parts = []
    for name in done.files:
        path = done.path / name
        if path.suffix == ".lance":
            parts.append(lance.dataset(str(path)).to_table())
        elif path.suffix == ".jsonl":
            parts.append(pj.read_json(path, parse_options=pj.ParseOptions(explicit_schema=schema)))
        else:
            parts.append(pq.read_table(path))
    return pa.concat_tables(parts)


@pytest.mark.parametrize("merge", ["tree", "trajectory", "none"])
def test_every_loss_term_is_there_once(stored: Warehouse, tmp_path: Path, merge: Any) -> None:
    done = export_dataset(stored, "d", 1, tmp_path / "out", merge=merge, **SETTINGS)
    table = read(done)
    terms = terms_of_pack if merge == "tree" else terms_of_sequence
    wanted = expected(stored)
    assert Counter(term for row in table.to_pylist() for term in terms(row)) == wanted
    assert (done.rows, done.terms, done.steps) == (table.num_rows, wanted.total(), len({term[1] for term in wanted}))
    assert done.tokens == len(table["input_ids"].combine_chunks().flatten())


def test_all_formats_hold_the_same(stored: Warehouse, tmp_path: Path) -> None:
    parquet, lines, other = (
        export_dataset(stored, "d", 1, tmp_path / to, to=to, **SETTINGS) for to in ("parquet", "jsonl", "lance")
    )
    table = read(parquet)
    assert read(lines, table.schema).equals(table)
    assert read(other).equals(table)
    assert lance.dataset(str(other.path / "data" / "train.lance")).version == 1


def test_a_sequence_tells_whose_it_is(stored: Warehouse, tmp_path: Path) -> None:
    rows = read(export_dataset(stored, "d", 1, tmp_path / "out", **SETTINGS)).to_pylist()
    mine = [row for row in rows if row["trajectory_id"] == "branched"]
    assert sorted(row["step_ids"] for row in mine) == [["branched.0", "branched.1"], ["branched.2"]]
    assert {(row["group_id"], row["prompt_id"], row["trajectory_reward"]) for row in mine} == {("g0", "p-g0", 2.0)}
    assert [row["group_id"] for row in rows] == sorted(row["group_id"] for row in rows)


def test_a_pack_tells_whose_steps_are_in_it(stored: Warehouse, tmp_path: Path) -> None:
    rows = read(export_dataset(stored, "d", 1, tmp_path / "out", merge="tree", **SETTINGS)).to_pylist()
    told = {
        step: (trajectory, group, prompt, reward)
        for row in rows
        for step, trajectory, group, prompt, reward in zip(
            *(row[name] for name in ("step_ids", "trajectory_ids", "group_ids", "prompt_ids", "trajectory_rewards")),
            strict=True,
        )
    }
    assert told["branched.2"] == ("branched", "g0", "p-g0", 2.0)
    assert told["b1.0"] == ("b1", "g1", "p-g1", 0.75)


def test_without_advantages_nothing_is_required_and_their_columns_are_absent(stored: Warehouse, tmp_path: Path) -> None:
    table = read(export_dataset(stored, "d", 1, tmp_path / "out"))
    assert {"advantage", "old_logprob"}.isdisjoint(table.column_names)
    assert np.isclose(sum(table["weight"].combine_chunks().flatten().to_pylist()), 1)


def test_what_is_not_there_is_counted(stored: Warehouse, tmp_path: Path) -> None:
    done = export_dataset(stored, "d", 1, tmp_path / "out", max_tokens=9, on_error="skip")
    everything = stored.datasets.get("d", 1).steps
    assert done.steps + sum(done.not_here.values()) == everything
    assert len(done.not_here) == 2  # too long, and nothing to train on
    card = (done.path / "README.md").read_text()
    assert all(f"- {count}: {reason}" in card for reason, count in done.not_here.items())


def test_a_folder_is_there_when_it_is_whole_and_never_overwritten(stored: Warehouse, tmp_path: Path) -> None:
    place = tmp_path / "deep" / "out"
    with pytest.raises(InvalidRecord, match="max_tokens"):
        export_dataset(stored, "d", 1, place, max_tokens=0)
    with pytest.raises(InvalidRecord, match="csv"):
        export_dataset(stored, "d", 1, place, to="csv")  # type: ignore[arg-type]
    assert not place.exists() and not (place.parent.exists() and list(place.parent.iterdir()))
    place.mkdir(parents=True)
    export_dataset(stored, "d", 1, place)
    before = sorted(place.rglob("*"))
    with pytest.raises(StoreError, match="is there already"):
        export_dataset(stored, "d", 1, place)
    assert sorted(place.rglob("*")) == before
    assert list(place.parent.iterdir()) == [place]


def test_a_place_that_cannot_be_written_is_named(stored: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        export_dataset(stored, "d", 1, tmp_path / "file" / "out")
