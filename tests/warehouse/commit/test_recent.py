"""Lately committed ids: complete from `start` on, or said not to be."""

from __future__ import annotations

import pytest

from stepwell.warehouse._commit import recent as _recent
from stepwell.warehouse._commit.recent import Recent


def test_only_those_of_others_since_the_version() -> None:
    recent = Recent()
    recent.follow({"p": 1}, 10)
    recent.add(["a", "b"], "one", 11, {"p": 2})
    recent.add(["c"], "two", 12, {"p": 3})
    assert recent.start == 10
    assert recent.among(["a", "b", "c", "d"], 10, "three") == {"a", "b", "c"}
    assert recent.among(["a", "b", "c", "d"], 10, "one") == {"c"}
    assert recent.among(["a", "c"], 11, "three") == {"c"}
    assert recent.among(["a", "c"], 12, "three") == set()


def test_nothing_is_known_to_begin_with() -> None:
    assert Recent().start > 1 << 60


def test_what_others_committed_meanwhile_is_not_known() -> None:
    """A committer that loses the lease and gets it again."""
    recent = Recent()
    recent.follow({"p": 1}, 10)
    recent.add(["a"], "one", 11, {"p": 2})
    recent.follow({"p": 2}, 13)
    assert recent.start == 10, "compacted meanwhile, no more"
    recent.follow({"p": 3}, 14)
    assert recent.start == 14
    assert recent.among(["a"], 0, "two") == set()


def test_the_oldest_are_forgotten_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_recent, "MAX_IDS", 3)
    recent = Recent()
    recent.follow({}, 1)
    for version in range(2, 7):
        recent.add([str(version)], "one", version, {"p": version})
    assert recent.start == 3
    assert recent.among(list("23456"), recent.start, "two") == set("456")
