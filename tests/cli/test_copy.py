"""`stepwell copy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")


@pytest.fixture
def source(place: Path) -> Path:
    from stepwell.warehouse import Warehouse

    Warehouse.open(place / "from")
    return place / "from"


def test_it_says_what_was_moved(source: Path, place: Path, capfd: Any) -> None:
    assert main(["copy", "from", "to"]) == 0
    assert "0 there already" in capfd.readouterr().out
    assert main(["copy", "from", "to", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert (said["bytes"], said["versions"]["steps"]) == (0, 1)
    assert main(["query", "select count(*) as n from steps", "--warehouse", str(place / "to"), "-f", "json"]) == 0


def test_a_place_that_is_none_is_refused(source: Path, place: Path, capfd: Any) -> None:
    assert main(["copy", "gs://bucket/x", "to"]) == 2
    assert "neither a folder nor s3://" in capfd.readouterr().err
    assert main(["copy", "nothing", "to"]) == 1
    assert "no warehouse" in capfd.readouterr().err


def test_each_end_has_its_server_and_profile(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepwell import warehouse

    seen: list[Any] = []

    class Noted:
        def __init__(self, *ends: Any, **_: Any) -> None:
            seen.extend(ends)

        def run(self) -> Any:
            return warehouse.Copied(0, 0, 0, 0, {})

    monkeypatch.setattr(warehouse, "Copy", Noted, raising=False)
    given = ["--from-profile", "a", "--to-profile", "b", "--from-endpoint", "http://127.0.0.1:1"]
    assert main(["copy", "s3://one/x", "s3://two/y", *given]) == 0
    assert seen == [
        ("s3://one/x", {"aws_endpoint": "http://127.0.0.1:1", "allow_http": "true", "aws_profile": "a"}),
        ("s3://two/y", {"aws_profile": "b"}),
    ]
