"""What is dropped from a spool is on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stepwell.spool import write_cursor
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._store import durable as durable_module
from stepwell.warehouse._store.durable import Durable


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were forced to the disk, in order."""
    real, names = os.fsync, list[str]()

    def fsync(file: int) -> None:
        names.append(str(Path(f"/proc/self/fd/{file}").readlink()))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


def files(root: Path) -> set[str]:
    kinds = ("data", "_versions", "_deletions", "_transactions")
    return {str(path) for kind in kinds for path in root.glob(f"*.lance/{kind}/*")}


def test_the_producers_hear_of_it_when_every_file_is_on_the_disk(
    feed: Any, warehouse: Warehouse, spools: Path, forced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[set[str], set[str]]] = []

    def tell(*args: Any) -> None:
        seen.append((files(Path(warehouse.uri)), set(forced)))
        write_cursor(*args)

    worker = Ingest(warehouse, spools)
    monkeypatch.setattr("stepwell.warehouse._ingest.told.write_cursor", tell)
    feed.step(step_id="a")
    worker.run_once()
    there, on_disk = seen[-1]
    assert there
    assert there <= on_disk
    assert {str(Path(name).parent) for name in there} <= on_disk, "a file is found by its folder"


@pytest.mark.parametrize("place", ["_indices/some-uuid/page.lance", "_refs/tags/pin.json", "_versions/1.manifest"])
def test_what_a_version_names_is_forced_with_it(tmp_path: Path, forced: list[str], place: str) -> None:
    file = tmp_path / "steps.lance" / place
    file.parent.mkdir(parents=True)
    file.write_text("x")
    Durable(str(tmp_path)).settle()
    assert {str(file), str(file.parent)} <= set(forced)


def test_only_what_is_new_is_forced_again(tmp_path: Path, forced: list[str]) -> None:
    folder = tmp_path / "steps.lance" / "data"
    folder.mkdir(parents=True)
    old, new = folder / "old", folder / "new"
    old.write_text("x")
    os.utime(old, ns=(1, 1))
    durable = Durable(str(tmp_path))
    new.write_text("x")
    durable.settle()
    assert {str(old), str(new), str(folder)} == set(forced)
    forced.clear()
    durable.settle()
    assert str(old) not in forced


def test_what_was_just_forced_is_not_forced_again_unless_it_was_written_to(
    tmp_path: Path, forced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "steps.lance" / "data"
    folder.mkdir(parents=True)
    new = folder / "new"
    new.write_text("x")
    durable = Durable(str(tmp_path))
    durable.settle()
    forced.clear()
    durable.settle()
    assert forced == []
    new.write_text("xy")  # it was not finished yet
    durable.settle()
    assert {str(new), str(folder)} == set(forced)


def test_files_at_rest_are_not_even_looked_at(
    tmp_path: Path, forced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warehouse has tens of thousands of files, and each commit adds a few."""
    folder = tmp_path / "steps.lance" / "data"
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / str(number)).write_text("x")
        os.utime(folder / str(number), ns=(1, 1))
    durable = Durable(str(tmp_path))
    durable.settle()
    looked = list[str]()
    real = durable_module._state

    def state(path: Path) -> Any:
        looked.append(path.name)
        return real(path)

    monkeypatch.setattr(durable_module, "_state", state)
    (folder / "new").write_text("x")
    (folder / "7").unlink()
    durable.settle()
    assert looked == ["new"]
    (folder / "7").write_text("another one of that name")
    durable.settle()
    assert str(folder / "7") in forced[-3:]


def test_an_object_store_has_it_already(forced: list[str]) -> None:
    Durable("s3://bucket/prefix").settle()
    assert forced == []
