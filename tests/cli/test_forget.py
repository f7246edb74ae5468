"""`stepwell forget`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main
from stepwell.cli._forget import forget
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
    said = capfd.readouterr()
    assert (said.out, "would be forgotten: 1 steps" in said.err) == ("", True)
    assert left() == ["bad", "good"]


@pytest.mark.usefixtures("data")
def test_on_a_terminal_only_the_outcome_is_json(
    capfd: Any, left: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    assert main(["forget", "--trajectory", "bad", "--json"]) == 0
    said = capfd.readouterr()
    assert (json.loads(said.out)["steps"], "would be forgotten: 1 steps" in said.err) == (1, True)
    assert left() == ["good"]


def test_the_example_of_the_help_selects_what_it_says(data: Path, left: Callable[[], list[str]]) -> None:
    """A column that is not in the inner view would mean the outer one's, and so everything."""
    [where] = re.findall(r'--where "(.*?)"', forget.__doc__ or "")
    with Spool(data / "spool" / "gateway.db") as spool:
        said = {"feedback_id": "f", "step_id": "s-bad", "comment": "delete me"}
        spool.append([Entry(id="feedback.f", kind="feedback", body=json.dumps(said).encode())])
    assert main(["forget", "--where", where, "--yes"]) == 0
    assert left() == ["good"]


@pytest.mark.usefixtures("data")
def test_what_programs_have_yet_to_deliver_is_named_and_refused_when_it_arrives(
    data: Path, capfd: Any, left: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from stepwell import sdk

    monkeypatch.setenv("STEPWELL_HOME", str(tmp_path / "home"))
    with sdk.Client("http://127.0.0.1:9", "token") as client:  # nobody listens there
        late: dict[str, Any] = {"messages": [{"role": "user", "content": "late"}], "response": "a"}
        client.submit_step(step_id="late", trajectory="bad", **late)
        assert client.flush(0).spooled == 1
        assert main(["forget", "--trajectory", "bad", "--trajectory", "never-came", "--yes", "--json"]) == 0
        ((path, waiting),) = json.loads(capfd.readouterr().out)["undelivered"].items()
        assert waiting == 1 and Path(path).is_relative_to(tmp_path / "home" / "sdk")
        client.close(0)
    assert main(["forget", "--trajectory", "bad", "--yes"]) == 0
    assert f"{path} (1 records)" in capfd.readouterr().out
    with Spool(data / "spool" / "gateway.db") as spool:  # as the gateway gets it at last
        for name in ("bad", "never-came"):
            body = {**late, "step_id": f"late-{name}", "trajectory_id": name, "response": {"content": "a"}}
            spool.append([Entry(id=f"step.late.{name}", kind="step", body=json.dumps(body).encode())])
    assert main(["forget", "--trajectory", "nothing", "--yes"]) == 0  # takes in what is in the spools
    assert left() == ["good"]


def test_where_there_is_no_warehouse(place: Path, capfd: Any) -> None:
    assert main(["forget", "--trajectory", "bad", "--yes"]) == 2
    assert "no warehouse" in capfd.readouterr().err
    assert place.is_dir()
