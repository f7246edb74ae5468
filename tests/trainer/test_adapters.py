"""The data set of optimizer steps in PyTorch's own loader."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._adapted import kept, number_of, opened
from torch.utils.data import DataLoader  # pyright: ignore[reportMissingImports]

from stepwell.reader.adapters import OptimizerSteps


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return kept(tmp_path_factory.mktemp("adapted"))


def steps_of(uri: str, **settings: Any) -> OptimizerSteps:
    return OptimizerSteps(partial(opened, uri, groups_per_step=1, **settings), form=number_of)


def test_items_are_the_packs_of_a_rank_as_tensors(uri: str) -> None:
    make = partial(opened, uri, groups_per_step=1, ranks=2, max_tokens=64)
    items = [list(DataLoader(OptimizerSteps(make, rank=rank), batch_size=None)) for rank in range(2)]
    assert len(items[0]) == len(items[1]) == 3
    assert [len(packs) for packs in items[0]] == [len(packs) for packs in items[1]]
    weight = sum(float(pack["weight"].sum()) for rank in items for packs in rank for pack in packs)
    assert weight == pytest.approx(3.0)
    assert all(isinstance(value, torch.Tensor) for packs in items[0] for pack in packs for value in pack.values())


def test_workers_give_the_order_of_a_single_process(uri: str) -> None:
    alone = list(DataLoader(steps_of(uri), batch_size=None))
    loader = DataLoader(steps_of(uri), batch_size=None, num_workers=2, multiprocessing_context="spawn")
    assert list(loader) == alone and [number for _, number, _ in alone] == [0, 1, 2]


def test_an_interrupted_epoch_is_taken_up_again(uri: str) -> None:
    dataset = steps_of(uri)
    whole = list(dataset)
    assert [epoch for epoch, *_ in DataLoader(dataset, batch_size=None)] == [1, 1, 1]
    dataset.set_epoch(0)
    begun = list(islice(iter(dataset), 1))
    other = steps_of(uri)
    other.load_state_dict(dataset.state_dict())
    assert begun + list(other) == whole
