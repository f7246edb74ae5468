"""`stepwell score`: what a user's function says of what is stored."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main
from stepwell.sdk.records import Step, Trajectory, encoded
from stepwell.spool import Entry, Spool

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")

JUDGE = """
import math
PENALTY = 0.0
def length(trajectory):
    assert trajectory["state"] == "open" and [step["turn"] for step in trajectory["steps"]] == [0, 0]
    return sum(len(step["response"]["content"][0]["text"]) for step in trajectory["steps"]) - PENALTY
def both(trajectory):
    return {"good": trajectory["trajectory_id"] == "t1", "turns": len(trajectory["steps"]), "none": None}
def picky(trajectory):
    if trajectory["trajectory_id"] == "t1":
        raise ValueError("cannot read\\nthis")
    return None if trajectory["trajectory_id"] == "t0" else True
def text(trajectory):
    return "1"
def nan(trajectory):
    return math.nan
def step(step):
    return step["messages"][0]["content"][0]["text"] == "q1"
"""


@pytest.fixture(autouse=True)
def _stored(place: Path) -> Iterator[None]:
    """Three rollouts of two steps, taken in by the first command that delivers; and the user's module."""
    (place / "judge_of_test.py").write_text(JUDGE)
    with Spool(place / "stepwell-data" / "spool" / "sdk.db") as spool:
        for number in range(3):
            name = f"t{number}"
            spool.append([Entry(id=f"open.{name}", kind="trajectory", body=encoded(Trajectory(trajectory_id=name)))])
            for turn in range(2):
                fields: dict[str, Any] = {
                    "step_id": f"{name}.{turn}",
                    "trajectory_id": name,
                    "messages": [{"role": "user", "content": f"q{turn}"}],
                    "response": {"role": "assistant", "content": "a" * (number + 1)},
                }
                spool.append([Entry(id=f"{name}.{turn}", kind="step", body=encoded(Step.model_validate(fields)))])
    take_in()
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("judge_of_test", None)


def take_in() -> None:
    from stepwell.warehouse import IngestConfig, run_ingest

    data, stop = Path("stepwell-data"), threading.Event()
    stop.set()
    where: dict[str, Any] = {"data": data, "warehouse": str(data / "warehouse"), "storage_options": {}}
    run_ingest(IngestConfig(drain=math.inf), **where, ready=lambda _: None, stop=stop)


def scores(level: str = "trajectory") -> dict[str, Any]:
    from stepwell.warehouse import Warehouse

    view = "trajectories" if level == "trajectory" else "steps"
    warehouse = Warehouse.open("stepwell-data/warehouse", create=False)
    rows = warehouse.query(f"SELECT {level}_id AS id, {level}_scores AS said FROM {view}").to_pylist()
    return {row["id"]: None if row["said"] is None else dict(row["said"]) for row in rows}


def events() -> int:
    from stepwell.warehouse import Warehouse

    warehouse = Warehouse.open("stepwell-data/warehouse", create=False)
    return int(warehouse.query("SELECT count(*) AS n FROM events WHERE kind = 'score'")["n"][0].as_py())


def test_a_number_and_again(place: Path, capfd: Any) -> None:
    assert main(["score", "--with", "judge_of_test:length"]) == 0
    assert scores() == {"t0": {"length": 2.0}, "t1": {"length": 4.0}, "t2": {"length": 6.0}}
    assert "3 trajectories; scores: 3 written" in capfd.readouterr().err
    assert main(["score", "--with", "judge_of_test:length"]) == 0
    assert "3 trajectories; scores: 0 written, 3 unchanged" in capfd.readouterr().err
    assert events() == 3
    module = sys.modules["judge_of_test"]
    for penalty in (1.0, 0.0):  # there and back: what was said before is said anew
        module.PENALTY = penalty  # type: ignore[attr-defined]
        assert main(["score", "--with", "judge_of_test:length", "--where", "trajectory_id <> 't0'"]) == 0
        assert scores()["t2"] == {"length": 6.0 - penalty} and scores()["t0"] == {"length": 2.0}
    assert events() == 7


def test_several_by_name() -> None:
    assert main(["score", "--with", "judge_of_test:both", "--limit", "2"]) == 0
    assert scores() == {"t0": {"good": 0.0, "turns": 2.0}, "t1": {"good": 1.0, "turns": 2.0}, "t2": None}
    assert main(["score", "--with", "judge_of_test:both", "--limit", "1", "--name", "j"]) == 0
    assert scores()["t0"] == {"good": 0.0, "turns": 2.0, "j.good": 0.0, "j.turns": 2.0}


def test_an_exception_costs_one(capfd: Any) -> None:
    assert main(["score", "--with", "judge_of_test:picky", "--name", "ok"]) == 1
    assert scores() == {"t0": None, "t1": None, "t2": {"ok": 1.0}}
    said = capfd.readouterr().err
    assert "stepwell: trajectory t1: ValueError: cannot read this\n" in said
    assert "3 trajectories; scores: 1 written, 1 failed" in said


@pytest.mark.parametrize(("function", "reason"), [("text", "'1'"), ("nan", "nan")])
def test_what_is_no_number(capfd: Any, function: str, reason: str) -> None:
    assert main(["score", "--with", f"judge_of_test:{function}", "--limit", "1"]) == 1
    assert f"it returned {reason}, which is no" in capfd.readouterr().err
    assert events() == 0


def test_steps() -> None:
    where = "trajectory_id = 't1' OR step_id = 't0.1'"
    assert main(["score", "--with", "judge_of_test:step", "--level", "step", "--where", where]) == 0
    found = {step: said for step, said in scores("step").items() if said is not None}
    assert found == {"t0.1": {"step": 1.0}, "t1.0": {"step": 0.0}, "t1.1": {"step": 1.0}}


def test_a_dry_run_writes_nothing(capfd: Any, place: Path) -> None:
    assert main(["score", "--with", "judge_of_test:length", "--dry-run"]) == 0
    said = capfd.readouterr()
    assert said.out == "t0\tlength\t2\nt1\tlength\t4\nt2\tlength\t6\n"
    assert "3 would be written" in said.err and events() == 0
    assert not (place / "stepwell-data" / "spool" / "score.db").exists()


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("judge_of_test", "as module:function"),
        ("judge_of_test:", "as module:function"),
        ("no_such_module_at_all:f", "cannot import no_such_module_at_all: ModuleNotFoundError"),
        ("judge_of_test:missing", "there is no function missing in judge_of_test"),
        ("judge_of_test:PENALTY", "there is no function PENALTY in judge_of_test"),
        ("broken_of_test:f", "cannot import broken_of_test: SyntaxError"),
    ],
)
def test_what_cannot_be_loaded(place: Path, capfd: Any, spec: str, reason: str) -> None:
    (place / "broken_of_test.py").write_text("def f(:")
    assert main(["score", "--with", spec]) == 2
    assert reason in capfd.readouterr().err


def test_a_bad_condition(capfd: Any) -> None:
    assert main(["score", "--with", "judge_of_test:length", "--where", "no_such_column = 1"]) == 1
    assert "no_such_column" in capfd.readouterr().err
    assert not Path("stepwell-data/spool/score.db").exists() or events() == 0
