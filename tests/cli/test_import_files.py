"""Files of `stepwell import`: which format each is, and what of it can be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli._import_files import Trouble, files_in, read_file
from stepwell.exchange import Found

NEITHER = "is neither a HAR file, nor a mitmproxy flow dump, nor JSON exchanges"


def exchange(name: str) -> dict[str, Any]:
    request = {"method": "POST", "url": "https://llm/v1/chat/completions", "headers": {}, "body": '{"messages": []}'}
    return {"id": name, "request": request, "response": {"status": 200, "headers": {}, "body": '{"choices": []}'}}


def archive(*names: str) -> dict[str, Any]:
    entries = [
        {"request": {"method": "GET", "url": f"https://llm/{name}", "headers": []}, "response": {"status": 200}}
        for name in names
    ]
    return {"log": {"version": "1.2", "entries": entries}}


def read(folder: Path, content: bytes, name: str = "file") -> tuple[list[str], list[str]]:
    """Names (of archives: URLs), and reasons of trouble."""
    path = folder / name
    path.write_bytes(content)
    names, reasons = [], []
    for value in read_file(path):
        if isinstance(value, Found):
            names.append(value.own_id or value.exchange.request.url)
        else:
            assert value.path == path
            reasons.append(value.reason)
    return names, reasons


ONE, TWO = json.dumps(exchange("one")).encode(), json.dumps(exchange("two")).encode()
PRETTY = json.dumps(exchange("one"), indent=2).encode()
BOM = b"\xef\xbb\xbf"
GOOD = {
    "one": (ONE, ["one"]),
    "one with a line end": (ONE + b"\n", ["one"]),
    "one over many lines": (PRETTY, ["one"]),
    "a list": (b"[" + ONE + b",\n" + TWO + b"]", ["one", "two"]),
    "lines": (ONE + b"\n" + TWO + b"\n", ["one", "two"]),
    "lines of Windows with gaps": (b"\r\n" + ONE + b"\r\n\r\n" + TWO, ["one", "two"]),
    "an archive": (json.dumps(archive("a", "b"), indent=1).encode(), ["https://llm/a", "https://llm/b"]),
    "an archive in a line": (json.dumps(archive("a")).encode(), ["https://llm/a"]),
    "an empty list": (b"[]", []),
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_format_is_told_by_the_content(tmp_path: Path, kind: str) -> None:
    content, names = GOOD[kind]
    assert read(tmp_path, content) == (names, [])
    assert read(tmp_path, BOM + content) == (names, [])
    assert read(tmp_path, gzip.compress(content), "other.txt") == (names, [])


def test_half_a_surrogate_pair_spoils_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, ONE.replace(b"choices", b"\\ud83d")) == (["one"], [])


@pytest.mark.parametrize(
    "content", [b"", b"  \n", b"%PDF-1.7", b"hello: world\n", b"12 apples", b"\x00\x01", b'"text"']
)
def test_what_is_none_of_them_is_said(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content) == ([], [NEITHER])


@pytest.mark.parametrize(
    "content", [b"{", b"{1: 2}", b'{"a": 1}', b'{\n"a": 1}', b"[1, 2]", b'{"a": 1}\n{"b": 1}\n', b"[" * 5000]
)
def test_json_that_holds_no_exchange_is_said_once(tmp_path: Path, content: bytes) -> None:
    names, (reason,) = read(tmp_path, content)
    assert (names, reason.startswith(NEITHER)) == ([], True)


def test_the_rest_of_a_file_goes_on(tmp_path: Path) -> None:
    lines = b"\n".join([ONE, b"{broken", b'{"other": 1}', TWO])
    names, (reason,) = read(tmp_path, lines)
    assert names == ["one", "two"]
    assert reason.startswith("2 of it no exchanges; line 2: no JSON")
    entries = archive("a", "b")
    entries["log"]["entries"].insert(1, {"request": 1})
    assert read(tmp_path, json.dumps(entries).encode()) == (
        ["https://llm/a", "https://llm/b"],
        ["1 of it no exchanges; entry 2: an entry's request is no JSON object"],
    )
    assert read(tmp_path, b"[" + ONE + b", 3]")[1] == ["1 of it no exchanges; item 2: it is no JSON object"]


def test_an_archive_that_was_cut_short_gives_what_it_has(tmp_path: Path) -> None:
    many = b"\n".join(json.dumps(exchange(str(number))).encode() for number in range(2000))
    whole = gzip.compress(many, 0)
    names, (reason,) = read(tmp_path, whole[: len(whole) // 2])
    assert 100 < len(names) < 2000
    assert reason.startswith(f"cannot be read beyond {len(names)} exchanges: ")


def test_a_file_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    (trouble,) = read_file(tmp_path / "gone")
    assert isinstance(trouble, Trouble)
    assert "No such file" in trouble.reason


def test_folders_are_walked_in_the_order_of_names(place: Path) -> None:
    for name in ("b/2", "b/1", "b/.git/config", "a", "c", ".hidden"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    found = [str(path.relative_to(place)) for path in files_in([place / "c", place])]
    assert found == ["c", "a", "c", "b/1", "b/2"]
