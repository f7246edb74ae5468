"""The demo's check: it agrees with a true log, and says what differs from an altered one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.cli._demo_check import Report, check
from stepwell.sdk.records import Feedback, Step
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Ingest, Warehouse

Log = list[dict[str, Any]]


def _call(number: int) -> dict[str, Any]:
    """What the server logs of a call: a prompt that grows with its number, and two sampled tokens."""
    ids = list(range(100, 120 + 5 * number))
    choice = {"response_ids": [number, 7], "logprobs": [-0.5, -0.25 * number]}
    return {"call_id": f"chatcmpl-{number}", "prompt_ids": ids, "choices": [choice]}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Four steps of two trajectories of one group, rewarded, as dataset `demo` version 1."""
    folder = tmp_path_factory.mktemp("data")
    with Spool(folder / "spool" / "gateway.db") as spool:
        for number in range(4):
            call = _call(number)
            step = Step(
                step_id=f"s{number}",
                trajectory_id=f"demo-x-{number % 2}",
                group_id="g",
                response_id=call["call_id"],
                prompt_ids=call["prompt_ids"],
                **call["choices"][0],
            )
            spool.append([Entry(f"step.s{number}", "step", body=step.model_dump_json(exclude_none=True).encode())])
        for trajectory in (0, 1):
            feedback = Feedback(trajectory_id=f"demo-x-{trajectory}", reward=float(trajectory))
            spool.append(
                [Entry(f"f{trajectory}", "feedback", body=feedback.model_dump_json(exclude_none=True).encode())]
            )
    warehouse = Warehouse.open(folder / "warehouse")
    while Ingest(warehouse, folder / "spool").run_once():
        pass
    warehouse.datasets.create("demo", "trainable")
    return warehouse


def _check(warehouse: Warehouse, log: Log) -> Report:
    return check(warehouse, warehouse.datasets.get("demo", 1), log, "demo-x-")


def test_a_true_log_agrees_and_the_figures_are_those_of_log_and_batches(stored: Warehouse) -> None:
    report = _check(stored, [_call(number) for number in range(4)])
    assert (report.mismatches, report.problems) == (0, [])
    assert (report.calls, report.steps, report.trajectories, report.groups) == (4, 4, 2, 1)
    assert (report.sampled_tokens, report.loss_terms, report.engine_steps) == (8, 8, 4)
    assert report.tokens_unmerged == sum(20 + 5 * number + 2 for number in range(4))
    assert report.tokens_merged < report.tokens_unmerged
    assert report.bytes_per_step > 0


def _other_id(log: Log) -> None:
    log[2]["choices"][0]["response_ids"][0] = 99


def _other_prompt(log: Log) -> None:
    log[1]["prompt_ids"][3] = 99


def _other_logprob(log: Log) -> None:
    log[0]["choices"][0]["logprobs"][1] = -9.0


def _unknown_call(log: Log) -> None:
    log.append(_call(9))


def _forgotten_call(log: Log) -> None:
    del log[1]


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (_other_id, "differ from those sampled"),
        (_other_prompt, "differ from those sampled"),
        (_other_logprob, "logprobs of chatcmpl-0"),
        (_unknown_call, "chatcmpl-9 became 0 steps"),
        (_forgotten_call, "chatcmpl-1, which the server did not give"),
    ],
)
def test_whatever_differs_is_a_mismatch(stored: Warehouse, alter: Callable[[Log], None], words: str) -> None:
    log = [_call(number) for number in range(4)]
    alter(log)
    report = _check(stored, log)
    assert report.mismatches > 0
    assert any(words in problem for problem in report.problems), report.problems
