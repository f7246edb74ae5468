"""Optimizer steps shared out among workers, and taken up again."""

from __future__ import annotations

import json
import os
import pickle
from functools import partial
from itertools import islice
from typing import Any

import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader import BatchReader
from stepwell.reader.adapters import rows_of, step_details, to_prime_rl, to_slime
from stepwell.reader.adapters._feed import Feed
from stepwell.warehouse import Warehouse


def opened(uri: str, **settings: Any) -> BatchReader:
    given = {"groups_per_step": 1, "merge": "trajectory", "old_logprobs": True, **settings}
    return BatchReader(Warehouse.open(uri), where="true", **given)


def numbered(steps: Any) -> list[tuple[int, int]]:
    return [(batches.epoch, batches.number) for batches in steps]


def groups(steps: Any) -> list[str]:
    return [batches.steps["group_id"][0].as_py() for batches in steps]


@pytest.fixture
def feed(plain: Warehouse) -> Feed:
    return Feed(partial(opened, plain.uri))


def test_workers_together_give_what_one_gives_in_its_order(plain: Warehouse) -> None:
    alone = groups(opened(plain.uri))
    shares = [groups(Feed(partial(opened, plain.uri)).steps(worker, 2)) for worker in range(2)]
    assert [shares[number % 2][number // 2] for number in range(5)] == alone
    assert len(set(alone)) == 5


def test_an_epoch_ends_and_the_next_has_another_order(feed: Feed) -> None:
    first, second = list(feed.steps(1, 3)), list(feed.steps(1, 3))
    assert numbered(first) == [(0, 1), (0, 4)] and numbered(second) == [(1, 1), (1, 4)]
    assert feed.state_dict()["epoch"] == 2 and feed.state_dict()["next"] == 0


def test_it_goes_on_after_the_last_step_that_was_given(plain: Warehouse, feed: Feed) -> None:
    whole = groups(feed.steps())
    feed.set_epoch(0)
    begun = groups(islice(feed.steps(), 2))
    saved = json.loads(json.dumps(feed.state_dict()))
    other = Feed(partial(opened, plain.uri))
    other.load_state_dict(saved)
    assert begun + groups(other.steps()) == whole


def test_each_worker_has_its_own_state(plain: Warehouse, feed: Feed) -> None:
    list(islice(feed.steps(1, 2), 1))
    other = Feed(partial(opened, plain.uri))
    other.load_state_dict(feed.state_dict())
    assert numbered(other.steps(1, 2)) == [(0, 3)]


def test_a_loader_that_knows_the_last_step_can_go_on(plain: Warehouse, feed: Feed) -> None:
    seen = list(islice(feed.steps(), 3))
    state = Feed(partial(opened, plain.uri)).state_after(seen[-1])
    feed.load_state_dict(state)
    assert numbered(feed.steps(0, 2)) == [(0, 4)] and state["next"] == 3


def test_a_state_of_another_selection_is_refused(plain: Warehouse, feed: Feed) -> None:
    with pytest.raises(InvalidRecord, match="another selection"):
        Feed(partial(opened, plain.uri, seed=7)).load_state_dict(feed.state_dict())
    with pytest.raises(InvalidRecord, match="worker"):
        next(feed.steps(2, 2))


def test_it_goes_to_another_process_without_its_warehouse(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    list(islice(feed.steps(), 2))
    sent = pickle.loads(pickle.dumps(feed))
    assert sent._reader is None and numbered(sent.steps()) == [(0, 2), (0, 3), (0, 4)]
    reader = feed._open()
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as after a fork
    assert feed._open() is not reader and feed.state_dict()["next"] == 2


def test_an_optimizer_step_can_be_sent(plain: Warehouse) -> None:
    (batches,) = opened(plain.uri, groups_per_step=None)
    sent = pickle.loads(pickle.dumps(batches))
    assert rows_of(sent).tokens.tolist() == rows_of(batches).tokens.tolist()


def test_the_reader_and_what_it_knows_of_steps(plain: Warehouse) -> None:
    reader = opened(plain.uri, groups_per_step=None, seed=None)
    (batches,) = reader
    rows = rows_of(batches, step_details(plain, batches, at=reader.plan().at))
    assert len(rows) == 10 and rows.terms.sum() == batches.occurrences
    assert rows.column("trajectory_reward", rows.last_step) == [float(name[1]) for name in rows.trajectories]
    samples = to_slime(rows)
    assert samples[-1]["weight_versions"] == ["4"] * len(samples[-1]["metadata"]["step_ids"])
    assert to_prime_rl(rows, env_name="e")[0]["temperatures"] == [1.0] * int(rows.lengths[0])
