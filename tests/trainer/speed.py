"""Forward and backward of a tiny model on steps as they are and on merged ones, in processor time of one thread.

    .tools/trainer/bin/python -m tests.trainer.speed [scale]

Unmerged, sequences lie one after the other without padding, in micro-batches of `MICRO` tokens. Merged, they are one tree. Both compute
the head for trained tokens only. Floating-point operations are those that the mask asks for: two for each weight and token, four for each
pair of tokens that see each other and each channel.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._model import Attend, Parameters, Shape, Tensor, chains, hidden, logprobs, new_parameters, several

from stepwell.reader import PrefixOrder, Sequences, TreeBatch, merge, varlen_inputs


@dataclass(frozen=True)
class Workload:
    """Of one prompt. `opening`, `response` and `observation` are numbers of ids."""

    trajectories: int
    turns: int
    opening: int
    response: int
    observation: int = 0


SHAPE = Shape(vocabulary=512, width=64, layers=2, heads=4, kv_heads=2, inner=128)
MICRO = 32_768
ENOUGH = 5.0
"""Seconds."""
WORKLOADS = {
    "1 trajectory x 20 turns": Workload(1, 20, opening=500, response=64, observation=32),
    "8 x 20 turns, 2k shared": Workload(8, 20, opening=2_000, response=32, observation=16),
    "16 x (1k + 256)": Workload(16, 1, opening=1_024, response=256),
    "16 x (4k + 128)": Workload(16, 1, opening=4_096, response=128),
}
Pack = tuple[TreeBatch, Attend]


def measure(shape: Workload) -> dict[str, float]:
    steps = _sequences(shape)
    apart, tree = list(_unmerged(steps)), merge(steps, advantage=np.ones(len(steps), np.float32))
    together: list[Pack] = [(tree, chains(varlen_inputs(tree)))]
    parameters = new_parameters(SHAPE, torch.float32)
    slow, fast = (_seconds(parameters, some) for some in (apart, together))
    operations = [sum(_operations(pack) for pack, _ in some) for some in (apart, together)]
    tokens = [sum(pack.tokens_merged for pack, _ in some) for some in (apart, together)]
    flop_ratio = operations[0] / operations[1]
    found = {"token_ratio": tokens[0] / tokens[1], "flop_ratio": flop_ratio, "speedup": slow / fast}
    found |= {"speedup_over_flop_ratio": slow / fast / flop_ratio, "merged_s": fast, "unmerged_s": slow}
    return {name: round(value, 3) for name, value in found.items()}


def _sequences(shape: Workload) -> Sequences:
    random = np.random.default_rng(0)
    opening = random.integers(0, SHAPE.vocabulary, shape.opening)
    prompts, responses = [], []
    for _ in range(shape.trajectories):
        context = opening
        for _ in range(shape.turns):
            new = random.integers(0, SHAPE.vocabulary, shape.response + shape.observation)
            prompts.append(context)
            responses.append(new[: shape.response])
            context = np.concatenate([context, new])
    old = [np.full(len(ids), -np.log(SHAPE.vocabulary), np.float32) for ids in responses]
    return Sequences.from_lists(prompts, responses, old)


def _unmerged(steps: Sequences) -> Iterator[Pack]:
    """Nothing is shared: a tree for each step."""
    rows: list[int] = []
    for row, size in enumerate(steps.lengths.tolist()):
        if rows and steps.lengths[rows].sum() + size > MICRO:
            yield _alone(steps, rows)
            rows = []
        rows.append(row)
    yield _alone(steps, rows)


def _alone(steps: Sequences, rows: list[int]) -> Pack:
    order = PrefixOrder(np.array(rows), np.zeros(len(rows), np.int64))
    batch = merge(steps, advantage=np.ones(len(steps), np.float32), prefixes=order)
    return batch, several(batch.tree.lengths.tolist())


def _step(parameters: Parameters, packs: list[Pack]) -> None:
    for batch, attend in packs:
        _loss(parameters, batch.to_torch(), attend).backward()
    for value in parameters.values():
        value.grad = None


def _loss(parameters: Parameters, tensors: dict[str, Tensor], attend: Attend) -> Tensor:
    embedded = parameters["embed"][tensors["input_ids"].long()]
    states = hidden(parameters, SHAPE, embedded, tensors["position_ids"], attend)
    unique, _ = logprobs(parameters, states[tensors["target_source"].long()], tensors["target_id"].long())
    ratio = (unique[tensors["occurrence_target"].long()] - tensors["old_logprob"]).exp()
    gain = torch.minimum(ratio * tensors["advantage"], ratio.clamp(0.8, 1.2) * tensors["advantage"])
    return -(gain * tensors["weight"]).sum()


def _seconds(parameters: Parameters, packs: list[Pack]) -> float:
    """The best of up to three, as what disturbs only ever adds; what takes long enough for that to even out is run once."""
    found: list[float] = []
    while len(found) < 3 and sum(found) < ENOUGH:
        start = time.process_time()
        _step(parameters, packs)
        found.append(time.process_time() - start)
    return min(found)


def _operations(batch: TreeBatch) -> float:
    """Of a forward pass; a backward pass has twice as many, whatever the mask."""
    kv = SHAPE.kv_heads * SHAPE.head_width
    weights = SHAPE.width * (2 * SHAPE.width + 2 * kv + 3 * SHAPE.inner) * SHAPE.layers
    pairs = float((batch.position_ids.astype(np.int64) + 1).sum())
    head = len(batch.target_id) * SHAPE.width * SHAPE.vocabulary
    return 2 * (batch.tokens_merged * weights + head) + 4 * pairs * SHAPE.width * SHAPE.layers


def main(scale: float) -> None:
    torch.set_num_threads(1)
    found = {}
    for name, shape in WORKLOADS.items():
        found[name] = measure(replace(shape, trajectories=max(1, round(shape.trajectories * scale))))
        print(name, found[name], file=sys.stderr, flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 1)
