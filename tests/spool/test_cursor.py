"""How far ingest has come: a hint that may be missing or damaged."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from stepwell.spool import read_cursor, write_cursor


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_cursor(tmp_path, {"a": 3, "b": 2**40})
    assert (read_cursor(tmp_path, "a"), read_cursor(tmp_path, "b"), read_cursor(tmp_path, "c")) == (3, 2**40, 0)
    write_cursor(tmp_path, {"b": 5})
    assert (read_cursor(tmp_path, "a"), read_cursor(tmp_path, "b")) == (0, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["committed.json"]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"null", b"[]", b'"a"', b"7", b"\xff\xfe", b"[" * 100_000),
        *(b'{"a": %s}' % value for value in (b"null", b'"5"', b"[5]", b"{}", b"-5", b"true", b"1.5", b"1e999", b"NaN")),
    ],
)
def test_a_damaged_file_means_that_nothing_may_be_dropped(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "committed.json").write_bytes(content)
    assert read_cursor(tmp_path, "a") == 0


def test_so_does_a_missing_one(tmp_path: Path) -> None:
    assert read_cursor(tmp_path, "a") == 0
    assert read_cursor(tmp_path / "missing", "a") == 0


def test_on_a_full_disk_the_file_is_rewritten_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what lets producers free the disk, so it must not need a new block itself."""
    write_cursor(tmp_path, {"p": 1})
    write = Path.write_text

    def no_new_file(self: Path, text: str) -> int:
        if not self.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, text)

    monkeypatch.setattr(Path, "write_text", no_new_file)
    write_cursor(tmp_path, {"p": 2})
    assert read_cursor(tmp_path, "p") == 2
