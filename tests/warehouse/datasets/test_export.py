"""A dataset as files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepwell.errors import StoreError
from stepwell.warehouse import Warehouse
from stepwell.warehouse._datasets.export import export


@pytest.fixture
def filled(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Warehouse:
    """A group of three trajectories with the rewards 1, 0 and none."""
    for number, reward in enumerate((1.0, 0.0, None)):
        name = f"t{number}"
        feed.trajectory(name, group_id="g", prompt_id="p", policy_version=4)
        feed.exchange([{"role": "user", "content": "q"}], "a", name, id=name, ids=(list(range(20)), [1, 2, 3]))
        if reward is not None:
            feed.feedback(trajectory_id=name, reward=reward)
    ingest()
    warehouse.datasets.create("d", "trajectory_id <> 't1'", note="for a test")
    return warehouse


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_the_file_has_what_reading_gives(
    filled: Warehouse, tmp_path: Path, format: Literal["parquet", "arrow"]
) -> None:
    file = tmp_path / f"d.{format}"
    export(filled.datasets, "d", 1, file, format)
    read = pq.read_table(file) if format == "parquet" else pa.ipc.open_file(file.read_bytes()).read_all()
    whole = filled.datasets.read("d")
    assert read.to_pylist() == whole.to_pylist()
    assert read["prompt_ids"].to_pylist() == [list(range(20))] * 2
    peers = pq.read_table if format == "parquet" else lambda path: pa.ipc.open_file(path.read_bytes()).read_all()
    assert peers(tmp_path / f"d.peers.{format}").to_pylist() == filled.datasets.peers("d").to_pylist()
    expected = {"d.card.json", "d.card.md", f"d.{format}", f"d.peers.{format}"}
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == expected


def test_the_card(filled: Warehouse, tmp_path: Path) -> None:
    card = export(filled.datasets, "d", None, tmp_path / "d.parquet")
    written = json.loads((tmp_path / "d.card.json").read_bytes())
    assert written["created_at"] == card["created_at"].isoformat()
    assert written | {"created_at": card["created_at"]} == card
    expected = {
        "dataset": "d@1",
        "at_commit": 1,
        "filter": "trajectory_id <> 't1'",
        "note": "for a test",
        "steps": 2,
        "trajectories": 2,
        "groups": 1,
        "prompt_tokens": 40,
        "response_tokens": 6,
        "policy_versions": [4],
        "trajectory_reward": {"trajectories": 1, "mean": 1.0, "min": 1.0, "max": 1.0},
        "fingerprint": filled.datasets.get("d").fingerprint,
    }
    assert expected.items() <= card.items()
    assert card["columns"]["prompt_ids"] == "large_list<item: int32>"
    for name, digest in card["files"].items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest
    words = (tmp_path / "d.card.md").read_text()
    assert words.startswith(
        "# d@1\n\nfor a test\n\n2 steps of 2 trajectories in 1 groups: 40 prompt tokens, 6 response tokens.\n"
    )
    assert "```sql\ntrajectory_id <> 't1'\n```" in words
    assert "- Policy versions: 4\n" in words


def test_nothing_is_left_of_an_export_that_failed(filled: Warehouse, tmp_path: Path) -> None:
    steps = filled.tables["steps"]
    steps.refresh()
    steps.dataset.update({"response": "'null'"}, where="trajectory_id = 't0'")
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(StoreError, match="is not what was frozen"):
        export(filled.datasets, "d", 1, folder / "d.parquet")
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_there(filled: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot write .*no/\.d\.parquet\.part: No such file"):
        export(filled.datasets, "d", 1, tmp_path / "no" / "d.parquet")
    with pytest.raises(StoreError, match="there is no dataset d@2"):
        export(filled.datasets, "d", 2, tmp_path / "d.parquet")
