"""What the demo prints: a compact table, or one JSON object."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path

from stepwell.cli._demo_check import Report


def as_json(report: Report) -> str:
    """One JSON object; the words of mismatches are left to the table."""
    return json.dumps({key: value for key, value in asdict(report).items() if key != "problems"})


def as_table(report: Report, seconds: float) -> str:
    """Rows of name, figure, and what was checked about it."""
    rows = [
        ("calls captured", f"{report.calls:,}", f"each became exactly one step ({report.steps:,})"),
        ("trajectories", f"{report.trajectories:,}", f"in {report.groups} prompt groups"),
        ("steps with engine tokens", f"{report.engine_steps:,}", "ids as sampled, nothing re-tokenised"),
        ("tokens before merging", f"{report.tokens_unmerged:,}", "every prompt in full"),
        ("tokens after merging", f"{report.tokens_merged:,}", f"{report.merge_ratio:.1f} x fewer to compute"),
        ("tokens sampled", f"{report.sampled_tokens:,}", f"{report.loss_terms:,} loss terms, one each"),
        ("bytes per step", f"{report.bytes_per_step:,}", "in the warehouse, all in"),
        ("dataset", report.dataset, f"fingerprint {report.dataset_fingerprint[:16]}"),
        ("mismatches", f"{report.mismatches:,}", "against the server's own log, id by id"),
        ("took", f"{seconds:.0f} s", ""),
    ]
    names, figures = (max(len(row[i]) for row in rows) for i in (0, 1))
    return "\n".join(f"  {name:<{names}}  {figure:>{figures}}  {note}".rstrip() for name, figure, note in rows)


def what_next(data: Path, program: str = "stepwell") -> str:
    """How to look at what is left, and the line that runs the user's own agent."""
    sql = "SELECT trajectory_id, turn, finish_reason, trajectory_reward FROM steps LIMIT 8"
    return (
        f"The data stays in {data}. Look at it:\n"
        f'  {program} query --data {shlex.quote(str(data))} "{sql}"\n'
        f"Your own agent, with `{program} up` in another terminal:\n"
        f"  {program} run --prompt my-task -- python my_agent.py"
    )
