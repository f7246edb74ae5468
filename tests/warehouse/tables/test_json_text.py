"""JSON texts are taken as the free-form fields of records are, and kept in no more room than they need."""

from __future__ import annotations

import sys

import orjson
import pytest

from stepwell.sdk.records import MAX_DEPTH
from stepwell.warehouse._tables import json_text as json_module
from stepwell.warehouse._tables.json_text import json_of, kept, trimmed


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def test_the_value() -> None:
    assert json_of(b' {"a": [1, 2.5, "\xc3\xa9"]} ') == {"a": [1, 2.5, "é"]}
    assert json_of(b"[%s]" % b",".join([b"[]"] * 500)) == [[]] * 500, "many levels beside each other are not deep"


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b'"\\ud800"', b'"\xff"', nested(MAX_DEPTH + 1)])
def test_what_a_field_does_not_take_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        json_of(text)


def test_as_deep_as_a_field_may_be() -> None:
    json_of(nested(MAX_DEPTH))


def test_a_text_that_may_be_too_large_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []
    monkeypatch.setattr(json_module, "_PLAINLY_FITS", 5)

    def count(value: object) -> object:
        counted.append(value)
        return value

    monkeypatch.setattr(json_module, "strict_json", count)
    assert (json_of(b"[1,2]"), json_of(b"[1,2,3]"), counted) == ([1, 2], [1, 2, 3], [[1, 2, 3]])


def test_a_text_that_is_kept_is_another_object() -> None:
    text = orjson.dumps({"a": 1})
    copy = trimmed(text)
    assert copy == text == kept({"a": 1}) and copy is not text
    assert sys.getsizeof(copy) == sys.getsizeof(b"x" * len(text))
