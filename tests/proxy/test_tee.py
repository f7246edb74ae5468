"""A copy of what passes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepwell.proxy._tee import Tee


@given(pieces=st.lists(st.binary(max_size=50)), limit=st.integers(0, 200))
def test_pieces_pass_as_they_are_and_the_first_bytes_are_kept(pieces: list[bytes], limit: int) -> None:
    tee = Tee(limit)
    whole = b"".join(pieces)
    assert [tee(piece) for piece in pieces] == pieces
    assert tee(b"") == b""
    assert tee.truncated == (len(whole) > limit)
    assert (tee.first_ns is not None) == bool(whole)
    assert tee.take() == whole[:limit]


def test_the_time_is_that_of_the_first_byte() -> None:
    tee = Tee(10)
    tee(b"")
    assert tee.first_ns is None
    tee(b"a")
    first = tee.first_ns
    tee(b"b")
    assert tee.first_ns == first is not None


def test_the_first_pieces_are_noted_with_their_places() -> None:
    tee = Tee(10)
    for piece in (b"abc", b"", b"defgh", b"ijklm", b"n"):
        tee(piece)
    assert [start for start, _ in tee.marks] == [0, 3, 8, 13]
    times = [at_ns for _, at_ns in tee.marks]
    assert times == sorted(times) and times[0] == tee.first_ns
    for _ in range(100):
        tee(b"x")
    assert len(tee.marks) == 32
