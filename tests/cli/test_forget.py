"""`stepwell forget`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main
from stepwell.spool import Entry, Spool

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")


@pytest.fixture
def data(place: Path) -> Path:
    """A data folder with two trajectories, still in a spool."""
    from stepwell.warehouse import Warehouse

    folder = place / "stepwell-data"
    Warehouse.open(folder / "warehouse")
    with Spool(folder / "spool" / "gateway.db") as spool:
        for name in ("bad", "good"):
            body = {"step_id": f"s-{name}", "trajectory_id": name, "messages": [{"role": "user", "content": name}]}
            spool.append([Entry(id=f"step.{name}", kind="step", body=json.dumps({**body, "response": "a"}).encode())])
    return folder


@pytest.fixture
def left(capfd: Any) -> Callable[[], list[str]]:
    """The trajectories that there are."""

    def ask() -> list[str]:
        capfd.readouterr()
        assert main(["query", "select trajectory_id t from steps order by t", "-f", "json"]) == 0
        return [row["t"] for row in json.loads(capfd.readouterr().out)]

    return ask


@pytest.mark.usefixtures("data")
def test_a_trajectory_is_forgotten(capfd: Any, left: Callable[[], list[str]]) -> None:
    assert main(["forget", "--trajectory", "bad", "--yes"]) == 0
    assert capfd.readouterr().out.startswith("forgotten: 1 steps")
    assert left() == ["good"]


@pytest.mark.usefixtures("data")
def test_a_dry_run_only_says(capfd: Any, left: Callable[[], list[str]]) -> None:
    assert main(["forget", "--where", "trajectory_id = 'bad'", "--dry-run", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert (said["trajectories"], said["steps"]) == (["bad"], 1)
    assert left() == ["bad", "good"]


@pytest.mark.usefixtures("data")
def test_nothing_is_forgotten_by_mistake(
    capfd: Any, left: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["forget", "--yes"]) == 2
    assert main(["forget", "--trajectory", "bad"]) == 2
    assert "--yes" in capfd.readouterr().err
    assert main(["forget", "--where", "no_such_column", "--yes"]) == 1
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert main(["forget", "--trajectory", "bad"]) == 1
    assert "would be forgotten: 1 steps" in capfd.readouterr().out
    assert left() == ["bad", "good"]


def test_where_there_is_no_warehouse(place: Path, capfd: Any) -> None:
    assert main(["forget", "--trajectory", "bad", "--yes"]) == 2
    assert "no warehouse" in capfd.readouterr().err
    assert place.is_dir()
