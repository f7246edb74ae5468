"""One rank of a data-parallel optimizer step, in a process of its own: the real `DistributedDataParallel`, which averages gradients."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._gradients import attention, terms_of
from tests.trainer._losses import LOSSES
from tests.trainer._model import Tensor, new_parameters
from tests.trainer._packs import packed
from tests.trainer._workloads import SHAPE, records
from torch import distributed  # pyright: ignore[reportMissingImports]
from torch.nn.parallel import DistributedDataParallel  # pyright: ignore[reportMissingImports]

from stepwell.reader import TreeBatch, gradient_factor


class Trained(torch.nn.Module):  # type: ignore[misc]
    """The loss of a pack as a module, since that is what is distributed."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.named = torch.nn.ParameterDict(
            {name.replace(".", "/"): value.detach() for name, value in new_parameters(SHAPE, dtype).items()}
        )

    def forward(self, batch: TreeBatch, loss: str) -> Tensor:
        parameters = {name.replace("/", "."): value for name, value in self.named.items()}
        if not batch.tokens_merged:  # a rank without work still has a gradient, of zeros, to average
            return sum(value.sum() * 0 for value in parameters.values())
        return LOSSES[loss](terms_of(parameters, batch.to_torch(), attention(batch, "chains")))


def run(rank: int, ranks: int, folder: str, workload: str, budget: int) -> None:
    """Write this rank's gradients of every loss to `folder`. As trainers do, losses are divided by the number of packs."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meeting = f"file://{folder}/meeting"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    try:
        packs = packed(records(workload), budget, ranks)[rank]
        factor = gradient_factor(ranks, accumulation=len(packs))
        model = DistributedDataParallel(Trained(torch.float64))
        found = {}
        for loss in LOSSES:
            model.zero_grad()
            for number, pack in enumerate(packs):
                last = number == len(packs) - 1
                with nullcontext() if last else model.no_sync():
                    (model(pack, loss) / len(packs) * factor).backward()
            named = {name.replace("/", "."): value.grad for name, value in model.module.named.items()}
            order = new_parameters(SHAPE, torch.float64)
            found[loss] = torch.cat([named[name].flatten() for name in order])
        torch.save(found, Path(folder) / f"{rank}.pt")
    finally:
        distributed.destroy_process_group()
