"""The collector of cyclic garbage is asked to look less often, and then as often as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stepwell.warehouse._ingest.garbage import seldom_collected


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_less_often_for_a_while() -> None:
    gc.set_threshold(700, 11, 12)
    with pytest.raises(KeyError), seldom_collected():
        assert gc.get_threshold() == (200_000, 11, 12)
        raise KeyError
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("given", [0, 1_000_000])
def test_never_more_often_than_it_was_asked_to(given: int) -> None:
    gc.set_threshold(given)
    with seldom_collected():
        assert gc.get_threshold()[0] == given
