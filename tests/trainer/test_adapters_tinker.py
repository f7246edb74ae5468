"""Tinker's own types take what the adapter makes. Its losses are computed on its servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trainer._adapted import kept, optimizer_step

from stepwell.reader.adapters import tinker_datums, to_tinker

pytest.importorskip(
    "tinker", reason="tinker is not installed here: pip install tinker==0.38.0 into .tools/trainer to run this"
)


def test_datums_hold_what_the_adapter_made(tmp_path: Path) -> None:
    batches = optimizer_step(kept(tmp_path))
    fields, datums = to_tinker(batches), tinker_datums(batches, mask=True)
    assert len(datums) == len(fields) > 5
    for datum, wanted in zip(datums, fields, strict=True):
        assert datum.model_input.to_ints() == wanted["model_input"].tolist()
        kinds = {name: values.dtype for name, values in datum.loss_fn_inputs.items()}
        assert kinds == {"target_tokens": "int64", "logprobs": "float32", "advantages": "float32", "mask": "float32"}
        for name, values in datum.loss_fn_inputs.items():
            assert values.data == wanted[name].tolist() and values.shape == [datum.model_input.length]
    assert "mask" not in tinker_datums(batches)[0].loss_fn_inputs
