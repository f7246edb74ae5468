"""Does what the trainer would get equal what the server sampled? Compared call by call and id by id, against the server's own log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from stepwell.reader import GroupBatch, read_groups
from stepwell.warehouse import Dataset, Warehouse

_SHOWN = 10


@dataclass(slots=True)
class Report:
    """The demo's result; the fields are the keys of its JSON."""

    calls: int
    steps: int
    trajectories: int
    groups: int
    engine_steps: int
    tokens_unmerged: int
    tokens_merged: int
    merge_ratio: float
    bytes_per_step: int
    sampled_tokens: int
    loss_terms: int
    dataset: str
    dataset_fingerprint: str
    mismatches: int = 0
    problems: list[str] = field(default_factory=list)
    """What does not agree, in words (the first few)."""

    def found(self, problem: str) -> None:
        self.mismatches += 1
        if len(self.problems) < _SHOWN:
            self.problems.append(problem)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The scripted server's log: one object per call it answered."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines() if line]


def check(warehouse: Warehouse, dataset: Dataset, log: Sequence[dict[str, Any]], trajectories: str) -> Report:
    """Compare the run whose trajectory ids begin with `trajectories`, as stored and as merged for a trainer, with the log."""
    steps = warehouse.steps(
        f"starts_with(trajectory_id, '{trajectories}')",
        columns=["step_id", "trajectory_id", "group_id", "response_id", "source"],
    ).read_all()
    batches = list(read_groups(warehouse, dataset.name, dataset.version, verify=False))
    unmerged = sum(group.batch.tokens_unmerged for group in batches)
    merged = sum(group.batch.tokens_merged for group in batches)
    report = Report(
        calls=len(log),
        steps=steps.num_rows,
        trajectories=len(set(steps["trajectory_id"].to_pylist())),
        groups=len(batches),
        engine_steps=sum(source == "engine" for source in steps["source"].to_pylist()),
        tokens_unmerged=unmerged,
        tokens_merged=merged,
        merge_ratio=round(unmerged / merged, 3) if merged else 1.0,
        bytes_per_step=_bytes_per_step(warehouse),
        sampled_tokens=sum(len(choice["response_ids"]) for call in log for choice in call["choices"]),
        loss_terms=sum(group.batch.occurrences for group in batches),
        dataset=f"{dataset.name}@{dataset.version}",
        dataset_fingerprint=dataset.fingerprint,
    )
    response_of = dict(zip(steps["step_id"].to_pylist(), steps["response_id"].to_pylist(), strict=True))
    _compare_calls(report, log, list(response_of.values()))
    _compare_tokens(report, log, batches, response_of)
    if report.loss_terms != report.sampled_tokens:
        report.found(
            f"{report.sampled_tokens} tokens were sampled, the trainer would get {report.loss_terms} loss terms"
        )
    return report


def _compare_calls(report: Report, log: Sequence[dict[str, Any]], responses: Sequence[str | None]) -> None:
    stored = Counter(responses)
    answered = {call["call_id"] for call in log}
    for call_id in answered:
        if stored[call_id] != 1:
            report.found(f"call {call_id} became {stored[call_id]} steps")
    for response in stored.keys() - answered:
        report.found(f"a step claims the answer {response}, which the server did not give")


def _compare_tokens(
    report: Report, log: Sequence[dict[str, Any]], batches: Iterable[GroupBatch], response_of: dict[str, str | None]
) -> None:
    """Every call's sequence, read back out of the merged trees, is what the server says it saw and sampled, its logprobs too."""
    sampled = {call["call_id"]: call for call in log}
    read_back: Counter[str | None] = Counter()
    for group in batches:
        batch = group.batch
        for row, index in enumerate(batch.step_index.tolist()):
            response = response_of.get(group.step_ids[index])
            call = sampled.get(response) if response is not None else None
            if call is None:
                continue  # reported as a step without a call
            read_back[response] += 1
            choice = call["choices"][0]
            if batch.sequence(row).tolist() != call["prompt_ids"] + choice["response_ids"]:
                report.found(f"the tokens of {response} read back differ from those sampled")
            terms = slice(batch.occurrence_offsets[row], batch.occurrence_offsets[row + 1])
            if batch.target_id[batch.occurrence_target[terms]].tolist() != choice["response_ids"]:
                report.found(f"the loss terms of {response} are not the tokens sampled")
            expected = np.asarray(choice["logprobs"], np.float32)
            if batch.old_logprob is None or not np.array_equal(batch.old_logprob[terms], expected):
                report.found(f"the logprobs of {response} differ from those the server gave")
    for call_id in sampled:
        if read_back[call_id] != 1:
            report.found(f"call {call_id} is {read_back[call_id]} times in the trainer's batches")


def _bytes_per_step(warehouse: Warehouse) -> int:
    """What `du` would say of the warehouse, per step in it."""
    blocks = sum(file.stat().st_blocks for file in Path(warehouse.uri).rglob("*") if file.is_file())
    total = warehouse.query("SELECT count(*) AS n FROM steps")["n"][0].as_py()
    return round(blocks * 512 / total) if total else 0
