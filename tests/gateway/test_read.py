from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

COLUMNS = [
    *("call_id", "prompt_id", "group_id", "split", "parent_id", "turn", "status", "finish_reason", "trainable"),
    *("untrainable_reason", "policy", "policy_version", "model", "source", "prompt_length", "step_reward"),
    *("trajectory_reward", "started_at", "finished_at", "superseded_by", "side", "dialect", "input_tokens"),
    *("output_tokens", "labels", "drift", "drift_cause", "tool_error", "refusal", "first_token_at", "metadata"),
    *("response_id", "cached_input_tokens", "reasoning_tokens", "trajectory_labels", "tags", "truncated"),
]


class Tables:
    """SQL over a table of a test's own."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self.steps = pa.Table.from_pylist([dict.fromkeys(COLUMNS) | step for step in steps])

    def query(self, sql: str) -> pa.Table:
        with duckdb.connect() as db:
            db.register("steps", self.steps)
            return db.sql(sql).to_arrow_table()

    def marks(self) -> dict[str, int]:
        return {}

    def version(self) -> int:
        return 0


def step(number: int) -> dict[str, Any]:
    return {
        "step_id": f"s{number:02}",
        "trajectory_id": f"t{number % 3}",
        "commit": number // 4,
        "producer": "ab"[number % 2],
        "sequence": number,
    }


@pytest.fixture
def api(api_of: Any) -> Any:
    return api_of(warehouse=Tables([step(number) for number in range(21)]))


def pages(api: Any, path: str, key: str, **parameters: Any) -> Iterator[list[str]]:
    cursor = None
    while True:
        answer = api.get(path, **parameters, **({} if cursor is None else {"cursor": cursor}))
        assert answer.status_code == 200
        yield [row[key] for row in answer.json()["items"]]
        if (cursor := answer.json()["next"]) is None:
            return


def in_order(numbers: range) -> list[str]:
    rows = sorted(
        (step(number) for number in numbers), key=lambda row: (row["commit"], row["producer"], row["sequence"])
    )
    return [row["step_id"] for row in rows]


@pytest.mark.parametrize("limit", [1, 4, 7, 20, 21, 500])
def test_pages_neither_skip_nor_repeat(api: Any, limit: int) -> None:
    oldest = list(pages(api, "/steps", "step_id", limit=limit, order="oldest"))
    assert [id for page in oldest for id in page] == in_order(range(21))
    assert all(len(page) == limit for page in oldest[:-1]) and oldest[-1]
    newest = [id for page in pages(api, "/steps", "step_id", limit=limit) for id in page]
    assert newest == in_order(range(21))[::-1]


def test_steps_of_one_trajectory(api: Any) -> None:
    found = [id for page in pages(api, "/steps", "step_id", limit=2, trajectory_id="t1") for id in page]
    assert found == in_order(range(1, 21, 3))[::-1]
    assert api.get("/steps", trajectory_id="t1' OR '1'='1").json() == {"items": [], "next": None}


@pytest.mark.parametrize(
    "parameters",
    [{"limit": 0}, {"limit": 501}, {"limit": "x"}, {"cursor": "nonsense"}, {"order": "random"}, {"trajectory_id": ""},
     {"trajectory_id": "a\x00b"}, {"trajectory_id": "x" * 300}],
)  # fmt: skip
def test_bad_parameters(api: Any, parameters: dict[str, Any]) -> None:
    answer = api.get("/steps", **parameters)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


def test_values_of_every_kind_have_a_form(api_of: Any, warehouse: Any) -> None:
    warehouse.rows = [
        {
            "name": "d",
            "sum": Decimal(7),
            "mean": Decimal("0.5"),
            "at": datetime(2026, 1, 2, tzinfo=UTC),
            "raw": b"\x00",
            "nan": float("nan"),
        }
    ]
    answer = api_of().get("/datasets")
    assert answer.json() == {
        "items": [{"name": "d", "sum": 7, "mean": 0.5, "at": "2026-01-02T00:00:00Z", "raw": "AA==", "nan": None}],
        "next": None,
    }


def test_without_a_warehouse_reads_are_unavailable_and_submissions_work(api_of: Any, tmp_path: Path) -> None:
    def missing() -> Any:
        raise OSError("no such place")

    api = api_of(warehouse=missing)
    for path in ("/steps", "/trajectories", "/groups", "/datasets", "/stats", "/stream", "/steps/a", "/datasets/a"):
        answer = api.get(path)
        assert (
            answer.status_code == 503 and "no such place" in answer.json()["detail"] and answer.headers["retry-after"]
        )
    assert api.post("/steps", {"prompt_ids": [1], "response_ids": [2]}).status_code == 200
    assert api.get("/health").status_code == 200
