"""tiktoken's files: taken from this machine or not at all."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader._realise.encode import TiktokenEncoder

tiktoken = pytest.importorskip("tiktoken")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder for files of ranks, no encoding in memory, and a network that must not be asked."""
    import requests
    import tiktoken.registry

    def get(*arguments: Any, **more: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(requests, "get", get)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["gpt-4o", "o200k_base", "gpt-4o-2024-08-06"])
def test_missing_ranks_are_not_fetched_and_the_error_says_where_they_belong(alone: Path, name: str) -> None:
    with pytest.raises(InvalidRecord, match="the encoding o200k_base are not on this machine") as refused:
        TiktokenEncoder(name)
    address, _, place = str(refused.value).partition(" gives to ")
    address = address.rpartition(" ")[2]
    assert address.endswith("o200k_base.tiktoken")
    assert place == str(alone / hashlib.sha1(address.encode()).hexdigest())


def test_without_a_folder_of_ones_own_the_error_names_the_setting(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv("TMPDIR", str(alone))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(InvalidRecord, match="TIKTOKEN_CACHE_DIR"):
        TiktokenEncoder("gpt-4o")


def test_a_damaged_file_counts_as_missing(alone: Path) -> None:
    with pytest.raises(InvalidRecord) as refused:
        TiktokenEncoder("gpt-4")
    place = Path(str(refused.value).rpartition(" ")[2])
    place.write_bytes(base64.b64encode(b"a") + b" 0\n")
    with pytest.raises(InvalidRecord, match=r"cl100k_base are not on this machine \(or damaged\)"):
        TiktokenEncoder("gpt-4")


def test_a_file_that_is_here_is_used_and_tiktoken_is_left_as_it_was(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiktoken.load
    import tiktoken.registry

    ranks = alone / "ours.tiktoken"
    ranks.write_bytes(b"\n".join(base64.b64encode(bytes([value])) + b" %d" % value for value in range(256)))

    def ours() -> dict[str, Any]:
        found = tiktoken.load.load_tiktoken_bpe(str(ranks))
        return {"name": "ours", "pat_str": r"\w+|\W+", "mergeable_ranks": found, "special_tokens": {}}

    tiktoken.list_encoding_names()
    monkeypatch.setitem(tiktoken.registry.ENCODING_CONSTRUCTORS, "ours", ours)  # type: ignore[arg-type]
    before = tiktoken.load.read_file
    assert TiktokenEncoder("ours").encode("ab").ids.tolist() == [97, 98]
    with pytest.raises(InvalidRecord):
        TiktokenEncoder("gpt-4o")
    assert tiktoken.load.read_file is before


def test_an_unknown_model_is_refused_with_the_names_there_are(alone: Path) -> None:
    with pytest.raises(InvalidRecord, match=r"knows no encoding for 'nobody-1'; name one of .*o200k_base"):
        TiktokenEncoder("nobody-1")
