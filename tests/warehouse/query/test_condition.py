"""Conditions of clients: which columns they are over, and what they may not be."""

from __future__ import annotations

import pytest

from stepwell.warehouse import BadQuery, columns_of_condition


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("model = 'a' AND Output_Tokens > 5 -- so", {"model", "output_tokens"}),
        ("list_contains(labels, 'x') OR steps.status IN ('ok', 'error')", {"labels", "status"}),
        ("metadata ->> 'agent' = 'x' AND trajectory_rewards['r'] > 0", {"metadata", "trajectory_rewards"}),
        ("(true) OR (false)", set()),
        (
            "labels[1] = 'x' AND step_rewards['r'] > 1.5 AND model NOT ILIKE '%b' AND model ~ 'c'",
            {"labels", "step_rewards", "model"},
        ),
        (
            "started_at > now() - INTERVAL 1 DAY AND date_trunc('hour', finished_at) = '2026-01-01'",
            {"started_at", "finished_at"},
        ),
        ("CASE WHEN turn % 2 = 0 THEN coalesce(len(tags), 0) > 1 END", {"turn", "tags"}),
        ("model = ')(' AND status = 'x' /* ) */", {"model", "status"}),
    ],
)
def test_the_columns_of_a_condition(condition: str, columns: set[str]) -> None:
    assert columns_of_condition(condition) == columns


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "model =",
        "true; SELECT 1",
        "true) ORDER BY (1",
        "true) UNION SELECT 1 FROM steps WHERE (true",
        "true) GROUP BY (model",
        "true) LIMIT (1",
        "EXISTS (SELECT 1)",
        "step_id IN (SELECT step_id FROM steps)",
        "row_number() OVER () = 1",
        "COLUMNS(*) IS NULL",
        "true); DROP TABLE steps; --",
        "model = ?",
        "true) OR (true",
        "(true)) OR ((true)",
        "true THEN true END OR CASE WHEN true",
        "true) OR (CASE WHEN true",
        "len(range(3000000000)) > 1",
        "model = repeat(model, 1000000000)",
        "sleep_ms(10000) IS NULL",
        "current_setting('memory_limit') = model",
        "len(list_transform(response_ids, x -> list_sum(response_ids))) > 1",
        "[x FOR x IN labels] = []",
        "CAST(NULL AS INTEGER[100000]) IS NULL",
        "system.main.range(3) IS NULL",
    ],
)
def test_what_is_no_condition(condition: str) -> None:
    with pytest.raises(BadQuery):
        columns_of_condition(condition)
