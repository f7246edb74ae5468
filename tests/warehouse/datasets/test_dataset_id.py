"""An id that says when it was made."""

from __future__ import annotations

import time
import uuid

import pytest

from stepwell.warehouse._datasets.dataset_id import made_at, new_id


def test_it_says_when() -> None:
    before = time.time()
    ids = [new_id() for _ in range(100)]
    after = time.time()
    assert all(before - 0.001 <= (made_at(id_) or 0) <= after for id_ in ids)
    assert len(set(ids)) == 100
    assert {(uuid.UUID(id_).version, len(id_)) for id_ in ids} == {(7, 32)}


@pytest.mark.parametrize("other", ["f81d4fae7dec41d0a76500a0c91e6bf6", "", "math@1", "0" * 32])
def test_others_do_not(other: str) -> None:
    assert made_at(other) is None
