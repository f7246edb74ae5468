"""Tinker: `Datum`s, labels shifted."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwell.reader.adapters._lines import Batch, rows_of
from stepwell.reader.adapters._needs import needed
from stepwell.reader.adapters._rows import Mean


def to_tinker(batch: Batch, *, mean: Mean = "sum") -> list[dict[str, Any]]:
    """One dict per row of L tokens, arrays [L-1]: model_input i64, the row without its last token; target_tokens i64, without its first;
    logprobs, advantages and mask f32, of the targets. `tinker_datums` makes `tinker.Datum`s of them.

    Tinker's losses (`importance_sampling`, `ppo`, `cispo`) are sums over targets, so `advantages` hold our weights as they are, and
    the loss is the one of the batch. 0 where nothing is trained: there is no mask in those losses, and `mask` is for you. Nothing is
    estimated behind your back; leave out the cookbook's `compute_advantages`.

    Raises:
        InvalidRecord: advantages or old logprobs are absent.
    """
    rows = rows_of(batch)
    due, old = rows.due(mean), rows.need_old_logprob()
    found: list[dict[str, Any]] = []
    for at in map(rows.of, range(len(rows))):
        targets = slice(at.start + 1, at.stop)
        found.append(
            {
                "model_input": rows.tokens[at][:-1].astype(np.int64),
                "target_tokens": rows.tokens[targets].astype(np.int64),
                "logprobs": old[targets].copy(),
                "advantages": due[targets].copy(),
                "mask": rows.trained[targets].astype(np.float32),
            }
        )
    valid = [one["target_tokens"][one["mask"] == 1] for one in found]
    rows.check_valid(np.concatenate([*valid, []]), "Tinker")
    return found


def tinker_datums(batch: Batch, *, mean: Mean = "sum", mask: bool = False) -> list[Any]:
    """`to_tinker` as `tinker.Datum`s. `mask`: keep it among the loss function's inputs, as the cookbook does before it trains.

    Raises:
        MissingExtra: tinker is not installed.
    """
    tinker = needed("tinker", "a Datum")
    kept = ("target_tokens", "logprobs", "advantages", *(["mask"] if mask else []))
    return [
        tinker.Datum(
            model_input=tinker.ModelInput.from_ints(one["model_input"].tolist()),
            loss_fn_inputs={name: tinker.TensorData.from_numpy(one[name]) for name in kept},
        )
        for one in to_tinker(batch, mean=mean)
    ]
