"""Images: the tokenizer puts the same placeholder ids wherever an image stands, so prefixes are compared by what is in the image."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._gradients import Gradients, attention, distance, of_terms, terms_of, whole
from tests.trainer._model import Parameters, Tensor, causal, new_parameters
from tests.trainer._workloads import SHAPE, Records, records

from stepwell.reader import Sequences, TreeBatch, prefix_order
from stepwell.reader._arrays import ranges

PLACEHOLDER, PATCHES = 1, 4
"""The id that stands for a patch of an image, and patches in one."""


def pictured() -> tuple[Records, list[bytes]]:
    """Prompts `text, image, question`: the ids of all steps are those of one group, but there are two images. And each step's image."""
    steps = records("single_turns")
    image = [PLACEHOLDER] * PATCHES
    turns = [(prompt[:5] + image + prompt[5:], response) for prompt, response in steps.turns]
    return replace(steps, turns=turns), [(b"a cat", b"a dog")[at % 2] for at in range(len(turns))]


def keyed(steps: Records, images: list[bytes]) -> Sequences:
    """The same sequences, with ids beyond the vocabulary that tell the patches of each image apart."""
    turns = []
    for (prompt, response), image in zip(steps.turns, images, strict=True):
        digest = int.from_bytes(sha256(image).digest()[:3], "little")
        turns.append(([digest + SHAPE.vocabulary if i == PLACEHOLDER else i for i in prompt], response))
    return replace(steps, turns=turns).sequences()


def seen(image: bytes, dtype: Any) -> Tensor:
    """[PATCHES, width] What a vision tower makes of an image."""
    random = torch.Generator().manual_seed(int.from_bytes(sha256(image).digest()[:4], "little"))
    return torch.randn(PATCHES, SHAPE.width, generator=random, dtype=dtype)


def embedded(parameters: Parameters, steps: Records, images: list[bytes]) -> Tensor:
    """[all tokens, width] in token layout, patches in the places of their placeholders."""
    found = []
    for (prompt, response), image in zip(steps.turns, images, strict=True):
        ids = torch.tensor(prompt + response)
        rows = parameters["embed"][ids]
        here = torch.zeros_like(rows).index_copy(0, torch.nonzero(ids == PLACEHOLDER)[:, 0], seen(image, rows.dtype))
        found.append(torch.where((ids == PLACEHOLDER)[:, None], here, rows))
    return torch.cat(found)


def gradients(parameters: Parameters, batch: TreeBatch, inputs: Tensor, lengths: Any) -> Gradients:
    """A packed token's embedding is that of the step which brought it into the tree."""
    offsets = np.append(0, np.cumsum(lengths))
    tree = batch.tree
    source = ranges(offsets[tree.rows] + tree.shared, tree.lengths - tree.shared)
    inputs = inputs[torch.from_numpy(source)]
    return of_terms(parameters, terms_of(parameters, batch.to_torch(), attention(batch, "dense"), inputs))


def reference(parameters: Parameters, steps: Records, inputs: Tensor) -> Gradients:
    """Step by step, as `unmerged`, with the images in."""
    sequences = steps.sequences()
    alone = whole(steps, prefixes=replace(prefix_order(sequences), shared=np.zeros(len(sequences), np.int64)))
    pieces = [inputs[a:b] for a, b in zip(sequences.offsets[:-1], sequences.offsets[1:], strict=True)]
    laid = torch.cat([pieces[row] for row in alone.tree.rows])
    sizes = sequences.lengths[alone.tree.rows].tolist()

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = zip(q.split(sizes), k.split(sizes), v.split(sizes), strict=True)
        return torch.cat([causal(*part) for part in parts])

    return of_terms(parameters, terms_of(parameters, alone.to_torch(), attend, laid))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
def test_placeholders_match_by_the_hash_of_their_image(dtype: Any) -> None:
    steps, images = pictured()
    parameters = new_parameters(SHAPE, dtype)
    inputs = embedded(parameters, steps, images)
    wanted = reference(parameters, steps, inputs)
    lengths = steps.sequences().lengths
    batch = whole(steps, prefixes=prefix_order(keyed(steps, images)))
    assert batch.merge_ratio > 1.5
    assert (batch.input_ids == PLACEHOLDER).sum() == 2 * PATCHES
    found = gradients(parameters, batch, inputs, lengths)
    by_id = gradients(parameters, whole(steps), inputs, lengths)
    for name, gradient in wanted.items():
        assert distance(found[name], gradient) <= (1e-10 if dtype is torch.float64 else 1e-5)
        assert distance(by_id[name], gradient) > 1e-2, "one image for the other must show"
