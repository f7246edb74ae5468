"""JSON whose texts were cut between the halves of a character."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange._chat.halves import has_halves, loads, loads_whole, whole_characters


def test_halves_are_read_and_joined() -> None:
    first, second = loads(b'{"a": "x\\ud83d"}')["a"], loads(b'["\\uDE00y"]')[0]
    assert whole_characters({"t": [first + second, 1, None]}) == {"t": ["x😀y", 1, None]}
    assert whole_characters(first) == whole_characters("x\ud83d") == "x\ufffd"


@pytest.mark.parametrize("data", [b"", b"{", b'{"a": "\\ud83d"', b"\xff", b'"\\ud83d" x', b'"\\ud83d"' + b"[" * 9])
def test_what_is_no_json_is_none(data: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        loads(data)
    with pytest.raises(orjson.JSONDecodeError):
        loads_whole(data)
    with pytest.raises(orjson.JSONDecodeError):
        loads(b'["\\ud83d", ' + b"[" * 100_000)


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_every_text_becomes_one_that_can_be_written(text: str) -> None:
    data = json.dumps([text]).encode()
    whole = whole_characters(loads(data))
    assert orjson.loads(orjson.dumps(whole)) == whole
    assert loads_whole(data) == whole
    if text.isascii():
        assert whole == [text] and not has_halves(data)


@given(st.text(max_size=20), st.data())
def test_a_text_cut_anywhere_in_utf_16_is_whole_again(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le")
    place = 2 * data.draw(st.integers(0, len(units) // 2))
    halves: list[Any] = [
        units[:place].decode("utf-16-le", "surrogatepass"),
        units[place:].decode("utf-16-le", "surrogatepass"),
    ]
    sent = [loads(json.dumps(half).encode()) for half in halves]
    assert whole_characters("".join(sent)) == text
