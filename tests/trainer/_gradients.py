"""Gradients of every loss, of steps one by one and of merged packs, and how far two of them are apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._losses import LOSSES, Terms
from tests.trainer._model import Attend, Parameters, Tensor, causal, chains, hidden, logprobs, masked
from tests.trainer._workloads import SHAPE, Records

from stepwell.reader import TreeBatch, dense_mask, merge, varlen_inputs

Gradients = dict[str, Tensor]
"""By name of the loss: all parameters' gradients in one vector."""
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
"""Relative to the gradient's norm."""


def unmerged(parameters: Parameters, records: Records) -> Gradients:
    """The reference: each step is computed by itself, and nothing of the reader is used."""
    columns: dict[str, list[Any]] = {name: [] for name in ("logprob", "entropy", "old", "ref", "advantage", "step")}
    for step, (prompt, response) in enumerate(records.turns):
        ids, flags = torch.tensor(prompt + response), records.trained[step]
        states = hidden(parameters, SHAPE, parameters["embed"][ids], torch.arange(len(ids)), causal)
        at = torch.from_numpy(np.flatnonzero(flags)) + len(prompt)
        logprob, entropy = logprobs(parameters, states[at - 1], ids[at])
        found = {"logprob": logprob, "entropy": entropy, "step": torch.full((len(at),), step)}
        found |= {name: torch.from_numpy(getattr(records, name)[step][flags]) for name in ("old", "ref")}
        found["advantage"] = torch.from_numpy(records.advantage)[found["step"]]
        for name, values in found.items():
            columns[name].append(values if name == "step" else values.to(logprob.dtype))
    joined = {name: torch.cat(values) for name, values in columns.items()}
    mean = np.full(len(records.turns), 1 / records.terms, np.float32)
    weight = torch.from_numpy(mean if records.weight is None else records.weight)[joined["step"]].to(
        joined["old"].dtype
    )
    terms = Terms(**joined, weight=weight, steps=len(records.turns))
    if records.sequence is not None:
        terms = replace(terms, step=torch.from_numpy(records.sequence)[terms.step])
    return of_terms(parameters, terms)


def merged(parameters: Parameters, batch: TreeBatch, kernel: Literal["dense", "chains"] = "dense") -> Gradients:
    return of_terms(parameters, terms_of(parameters, batch.to_torch(), attention(batch, kernel)))


def attention(batch: TreeBatch, kernel: str) -> Attend:
    if kernel == "dense":
        return masked(torch.from_numpy(dense_mask(batch)))
    return chains(varlen_inputs(batch), block=16)


def terms_of(parameters: Parameters, tensors: dict[str, Tensor], attend: Attend, embedded: Tensor = None) -> Terms:
    """The computation of `TreeBatch`'s docstring: each unique trained token once, then its occurrences."""
    if embedded is None:
        embedded = parameters["embed"][tensors["input_ids"].long()]
    states = hidden(parameters, SHAPE, embedded, tensors["position_ids"], attend)
    found = logprobs(parameters, states[tensors["target_source"].long()], tensors["target_id"].long())
    logprob, entropy = (values[tensors["occurrence_target"].long()] for values in found)
    own = {"old": "old_logprob", "ref": "ref_logprob", "advantage": "advantage", "weight": "weight"}
    columns = {name: tensors[key].to(logprob.dtype) for name, key in own.items()}
    step = tensors["occurrence_step"].long()
    return Terms(logprob, entropy, **columns, step=step, steps=len(tensors["step_index"]))


def of_terms(parameters: Parameters, terms: Terms, losses: dict[str, Callable[[Terms], Tensor]] = LOSSES) -> Gradients:
    leaves = list(parameters.values())
    found = {}
    for name, loss in losses.items():
        parts = torch.autograd.grad(loss(terms), leaves, retain_graph=True)
        found[name] = torch.cat([part.flatten() for part in parts])
    return found


def whole(records: Records, **how: Any) -> TreeBatch:
    """All steps in one pack."""
    return merge(records.sequences(), advantage=records.advantage, ref_logprob=np.concatenate(records.ref), **how)


def added(parts: list[Gradients]) -> Gradients:
    """What accumulating over packs, or summing over ranks, gives."""
    return {name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]}


def distance(found: Tensor, wanted: Tensor) -> float:
    """Relative, of vectors."""
    return float((found - wanted).norm() / wanted.norm())


def assert_equal(found: Gradients, wanted: Gradients) -> None:
    """Every loss's gradient is there, is not nothing, and is as close as its precision allows."""
    assert found.keys() == wanted.keys() == LOSSES.keys()
    for name, gradient in wanted.items():
        assert gradient.norm() > 1e-3, f"{name}: nothing to compare"
        off = distance(found[name], gradient)
        assert off <= TOLERANCE[gradient.dtype], f"{name}: off by {off:.1e} in {gradient.dtype}"


def per_target(terms: Terms, targets: Tensor, how: Callable[[Tensor], Tensor]) -> Terms:
    """Terms as a careless merge leaves them: one for each unique token, its occurrences' values put into one by `how`."""
    values = ("old", "ref", "advantage", "weight")
    first = torch.from_numpy(np.unique(targets.numpy(), return_index=True)[1])
    mine = {name: getattr(terms, name)[first] for name in ("logprob", "entropy", "step")}
    return replace(terms, **mine, **{name: how(getattr(terms, name)) for name in values})
