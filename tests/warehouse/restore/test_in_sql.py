"""Whole prompts and texts in SQL: for few steps, for many, and where something is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from stepwell.errors import StoreError
from stepwell.warehouse import BadQuery, Warehouse
from stepwell.warehouse._query import query
from stepwell.warehouse._restore import passing
from stepwell.warehouse._restore.read import stored_of

LONG = "long " * 1000


@pytest.fixture
def filled(feed: Any, warehouse: Warehouse, ingest: Callable[[], int]) -> Warehouse:
    """Three trajectories of two turns, one with texts that are stored apart, and a step without tokens."""
    for name, said in (("a", LONG), ("b", "short"), ("c", "short")):
        feed.exchange([{"role": "user", "content": said}], said, name, id=f"{name}0", ids=(list(range(30)), [1, 2]))
        talk = [
            {"role": "user", "content": said},
            {"role": "assistant", "content": said},
            {"role": "user", "content": "?"},
        ]
        feed.exchange(talk, "end", name, id=f"{name}1", ids=([*range(30), 1, 2, 3], [4]))
    feed.step(step_id="text", trajectory_id="d")
    ingest()
    return warehouse


WHOLE = "SELECT step_id, prompt_ids, messages, tools, response FROM steps ORDER BY step_id"


@pytest.mark.parametrize(
    ("few", "kept", "begun_with"), [(0, 1, 1), (2, 1, 2), (0, 1 << 30, 1), (4096, 1 << 30, 32)],
    ids=["nothing stays", "looked up at last", "all stays", "by the index"],
)  # fmt: skip
def test_as_it_is_read_by_id(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch, few: int, kept: int, begun_with: int
) -> None:
    for name, value in (("_FEW", few), ("_KEPT", kept), ("_BEGUN_WITH", begun_with)):
        monkeypatch.setattr(passing, name, value)
    found = filled.query(WHOLE)
    assert found.to_pylist() == filled.whole(found["step_id"].to_pylist(), found.column_names).to_pylist()
    assert found["prompt_ids"].to_pylist()[1] == [*range(30), 1, 2, 3]
    assert found["prompt_ids"].to_pylist()[-1] is None
    assert json.loads(found["messages"][1].as_py())[0]["content"][0]["text"] == LONG
    assert json.loads(found["response"][0].as_py())["content"][0]["text"] == LONG


def test_a_step_that_is_asked_for_several_times(filled: Warehouse) -> None:
    sql = "SELECT s.step_id, s.prompt_ids AS p FROM steps s, range(3) ORDER BY s.step_id DESC, range"
    found = filled.query(sql)
    once = dict(
        zip(*filled.whole(["a0.0", "a1.0", "text"], ["step_id", "prompt_ids"]).to_pydict().values(), strict=True)
    )
    assert found.num_rows == 21
    assert all(row["p"] == once[row["step_id"]] for row in found.to_pylist() if row["step_id"] in once)


def test_a_query_for_few_steps_reads_only_those(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[list[str]]()
    real = stored_of

    def noted(dataset: Any, ids: list[str], columns: Any) -> Any:
        read.append(ids)
        return real(dataset, ids, columns)

    monkeypatch.setattr(passing, "stored_of", noted)
    found = filled.query("SELECT messages, prompt_ids FROM steps WHERE trajectory_id = 'b' AND turn = 1")
    assert found["prompt_ids"].to_pylist() == [[*range(30), 1, 2, 3]]
    assert read == [["b"]], "once for both columns"
    assert filled.query("SELECT len(messages) AS n FROM steps WHERE false").num_rows == 0


def test_an_answer_that_is_too_large_says_what_to_use_instead(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "_MOST", 3000)
    with pytest.raises(BadQuery, match=r"warehouse\.steps"):
        filled.query("SELECT messages FROM steps")
    assert filled.query("SELECT sum(len(messages)) AS n FROM steps")["n"][0].as_py() > 3000
    assert filled.query("SELECT messages FROM steps WHERE trajectory_id = 'b'").num_rows == 2


@pytest.mark.parametrize("column", ["messages", "response"])
def test_a_lost_payload_is_an_error_of_the_store(filled: Warehouse, column: str) -> None:
    filled.tables["payloads"].dataset.delete("size > 0")
    with pytest.raises(StoreError, match="payload"):
        filled.query(f"SELECT {column} FROM steps WHERE trajectory_id = 'a'")
    assert filled.query(f"SELECT {column} FROM steps WHERE trajectory_id = 'b'").num_rows == 2
    assert filled.query("SELECT step_id FROM steps WHERE trajectory_id = 'a'").num_rows == 2


def test_a_lost_base_is_an_error_of_the_store(filled: Warehouse) -> None:
    filled.tables["steps"].dataset.delete("step_id = 'b0.0'")
    with pytest.raises(StoreError, match=r"b1\.0"):
        filled.query("SELECT prompt_ids FROM steps WHERE trajectory_id = 'b'")
