"""`stepwell dataset` against a real warehouse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")


@pytest.fixture
def filled(take_in: Callable[..., None]) -> None:
    """Three steps in the default warehouse of the working directory."""
    take_in(*({"step_id": f"s{n}", "trajectory_id": "t", "prompt_ids": [1, 2, n]} for n in range(3)))


def said(capfd: Any, *arguments: str) -> str:
    capfd.readouterr()
    assert main(["dataset", *arguments]) == 0
    return str(capfd.readouterr().out)


@pytest.mark.usefixtures("filled")
def test_from_creation_to_deletion(place: Path, capfd: Any) -> None:
    assert said(capfd, "list").splitlines()[0].split() == [
        *("name", "version", "steps", "at_commit", "pinned", "created_at", "filter", "note")
    ]
    made = json.loads(said(capfd, "create", "d", "--where", "step_id <> 's2'", "--note", "two", "--json"))
    assert (made["dataset"], made["steps"], made["note"], made["pinned"]) == ("d@1", 2, "two", False)
    assert said(capfd, "create", "d", "--pin").splitlines()[0].split() == ["dataset", "d@2"]

    [first, second] = json.loads(said(capfd, "list", "--json"))
    assert (first["dataset"], second["dataset"], second["pinned"]) == ("d@1", "d@2", True)
    assert "(2 rows)" in said(capfd, "list")
    shown = json.loads(said(capfd, "show", "d@1", "--json"))
    assert (shown["fingerprint"], shown["models"]) == (made["fingerprint"], ["m"])
    assert json.loads(said(capfd, "lineage", "d", "--json"))["dataset"] == "d@2"
    assert "models" in said(capfd, "lineage", "d@1")
    [row] = json.loads(said(capfd, "diff", "d@1", "d@2", "--json"))
    assert (row["step_id"], row["change"]) == ("s2", "added")
    assert "added" in said(capfd, "diff", "d@1", "d")

    assert said(capfd, "export", "d@1", "out.parquet") == "2 steps of d@1 in out.parquet\n"
    card = json.loads(said(capfd, "export", "d@2", "out.arrow", "--json"))
    assert card["steps"] == 3
    assert (place / "out.arrow").read_bytes()[:6] == b"ARROW1"
    assert (place / "out.parquet").read_bytes()[:4] == b"PAR1"

    assert main(["dataset", "delete", "d@2"]) == 1
    assert "d@2 is pinned" in capfd.readouterr().err
    assert said(capfd, "delete", "d@2", "--force") == "deleted d@2\n"
    assert said(capfd, "delete", "d@1") == "deleted d@1\n"
    assert json.loads(said(capfd, "list", "--json")) == []


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["show", "d"], 1, "there is no dataset d;"),
        (["show", "d@x"], 1, "is no dataset"),
        (["create", "a@b"], 1, "name: 1 to 200"),
        (["create", "d", "--where", "nonsense"], 1, "nonsense"),
        (["create", "d", "--where", "false"], 1, "no step satisfies"),
        (["create", "d", "--at", "99"], 1, "there is no commit 99"),
        (["delete", "d"], 2, "which version of d?"),
        (["list", "--warehouse", "elsewhere"], 2, "no warehouse"),
    ],
)
def test_mistakes_are_one_line(capfd: Any, arguments: list[str], code: int, why: str) -> None:
    assert main(["dataset", *arguments]) == code
    out, error = capfd.readouterr()
    assert out == ""
    assert why in error
    assert len(error.splitlines()) == 1


@pytest.mark.usefixtures("filled")
def test_a_query_at_a_version(capfd: Any) -> None:
    for at, count in (("0", 0), ("1", 3), ("2020-01-01", 0)):
        assert main(["query", "select count(*) as n from steps", "--format", "json", "--at", at]) == 0
        assert json.loads(capfd.readouterr().out) == [{"n": count}]
    assert main(["query", "select 1", "--at", "soon"]) == 1
    assert "'soon' is no version" in capfd.readouterr().err


@pytest.mark.usefixtures("filled")
def test_what_others_wrote_does_not_steer_the_terminal(capfd: Any) -> None:
    shown = said(capfd, "create", "d", "--note", "a\x1b[31m\nb")
    assert "note         a\\x1b[31m\\nb\n" in shown
