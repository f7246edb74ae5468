from __future__ import annotations

import base64

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.gateway._cursor import key_of, literal, opaque
from stepwell.gateway._problems import Problem

NUMBER = st.integers(-(2**63) + 1, 2**63 - 1)
DATABASE = duckdb.connect()
TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))


@settings(deadline=None)
@given(st.tuples(NUMBER, TEXT, NUMBER, TEXT))
def test_a_cursor_gives_its_key_back(key: tuple[int, str, int, str]) -> None:
    assert key_of(opaque(key), (int, str, int, str)) == list(key)


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "ü", "!!!!", opaque(["a"]), opaque([1, "a", 1]), opaque(["1", "a", 1, "b"]), opaque([True, "a", 1, "b"]),
     opaque([2**63, "a", 1, "b"]), opaque([1, "a", -(10**30), "b"]), opaque([1, "\x00", 1, "b"]),
     opaque([1, "a", 1, "\ud800"]), base64.urlsafe_b64encode(b"[" * 100_000).decode()],
)  # fmt: skip
def test_what_was_not_handed_out_is_refused(cursor: str) -> None:
    with pytest.raises(Problem, match="cursor") as caught:
        key_of(cursor, (int, str, int, str))
    assert caught.value.status == 422


@settings(deadline=None)
@given(TEXT | st.integers(-(2**63), 2**63 - 1))
def test_a_literal_is_the_value_and_nothing_else(value: str | int) -> None:
    assert DATABASE.execute(f"SELECT {literal(value)}").fetchall() == [(value,)]


@pytest.mark.parametrize("value", ["a\x00b", "\ud800"])
def test_what_no_database_takes_is_refused(value: str) -> None:
    with pytest.raises(Problem):
        literal(value)
