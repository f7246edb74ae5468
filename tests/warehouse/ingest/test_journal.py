"""What an ingest has set about survives it, whatever the disk does."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import StoreError
from stepwell.warehouse._ingest.journal import Journal, Planned

PLACE = "/data/warehouse"


def outstanding(journal: Journal) -> list[int]:
    return [one.number for one in journal.outstanding]


def test_what_is_planned_is_there_after_a_restart(tmp_path: Path) -> None:
    journal = Journal(tmp_path, PLACE)
    first = journal.plan({"p": (0, 4), "q": (7, 9)})
    second = journal.plan({"p": (4, 5)})
    again = Journal(tmp_path, PLACE)
    assert again.writer == journal.writer
    assert again.outstanding == [first, second] == [Planned(1, {"p": (0, 4), "q": (7, 9)}), Planned(2, {"p": (4, 5)})]
    assert again.plan({"p": (5, 6)}).number == 3


def test_numbers_are_never_given_twice(tmp_path: Path) -> None:
    journal = Journal(tmp_path, PLACE)
    for _ in range(3):
        journal.plan({"p": (0, 1)})
    journal.settle(2)
    assert outstanding(journal) == [3]
    journal.drop()
    again = Journal(tmp_path, PLACE)
    assert outstanding(again) == []
    assert again.plan({"p": (0, 1)}).number == 4


def test_another_warehouse_has_a_journal_of_its_own(tmp_path: Path) -> None:
    """What was announced there is committed there; here nothing of it is known."""
    journal = Journal(tmp_path, PLACE)
    journal.plan({"p": (0, 1)})
    other = Journal(tmp_path, "s3://bucket/warehouse")
    assert other.writer != journal.writer
    assert outstanding(other) == []
    assert other.plan({"p": (0, 1)}).number == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"warehouse":"/data/warehouse"}', b"\0" * 50])
def test_a_damaged_one_is_begun_anew_under_another_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    writer = Journal(tmp_path, PLACE).plan({"p": (0, 1)})
    assert writer.number == 1
    (tmp_path / "ingest.json").write_bytes(data)
    with caplog.at_level(logging.WARNING):
        journal = Journal(tmp_path, PLACE)
    assert "begun anew" in caplog.text
    assert outstanding(journal) == []
    assert journal.plan({"p": (0, 1)}).number == 1


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed must be settled then: only so do producers make room."""
    journal = Journal(tmp_path, PLACE)
    for number in range(5):
        journal.plan({"p": (number, number + 1)})
    inode = (tmp_path / "ingest.json").stat().st_ino
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        journal.settle(4)
    assert (tmp_path / "ingest.json").stat().st_ino == inode
    assert outstanding(Journal(tmp_path, PLACE)) == [5], "and nothing of the longer text is left behind it"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ingest.json"]


def test_a_disk_that_takes_nothing_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, PLACE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"ingest\.json.*No space left"):
            journal.plan({"p": (0, 1)})
    assert outstanding(journal) == []
    assert list(tmp_path.iterdir()) == []
    assert journal.plan({"p": (0, 1)}).number == 1
