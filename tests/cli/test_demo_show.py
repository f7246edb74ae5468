"""What the demo prints."""

from __future__ import annotations

import json
from pathlib import Path

from stepwell.cli._demo_check import Report
from stepwell.cli._demo_show import as_json, as_table, what_next

KEYS = [
    *("calls", "steps", "trajectories", "groups", "engine_steps", "tokens_unmerged", "tokens_merged", "merge_ratio"),
    *("bytes_per_step", "sampled_tokens", "loss_terms", "mismatches", "dataset", "dataset_fingerprint"),
]


def _report() -> Report:
    report = Report(63, 62, 16, 4, 61, 100_778, 11_694, 8.618, 5071, 5892, 5890, "demo@1", "e92f7eb405703e7aff")
    report.found("call x became 0 steps")
    return report


def test_json_has_exactly_the_promised_keys() -> None:
    printed = json.loads(as_json(_report()))
    assert sorted(printed) == sorted(KEYS)
    assert printed["mismatches"] == 1


def test_the_table_shows_every_figure() -> None:
    table = as_table(_report(), seconds=12.4)
    for figure in (
        "63",
        "62",
        "16",
        "61",
        "100,778",
        "11,694",
        "8.6 x",
        "5,892",
        "5,890",
        "5,071",
        "demo@1",
        "e92f7eb405703e7a",
        "12 s",
    ):
        assert figure in table


def test_it_ends_with_the_line_that_runs_the_users_own_agent() -> None:
    assert what_next(Path("/data")).splitlines()[-1].strip() == "stepwell run --prompt my-task -- python my_agent.py"


def test_only_the_first_problems_are_kept_but_all_are_counted() -> None:
    report = _report()
    for number in range(50):
        report.found(f"problem {number}")
    assert report.mismatches == 51
    assert len(report.problems) == 10
