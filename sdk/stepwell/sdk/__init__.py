"""Submit steps and feedback to Stepwell from any Python process.

    from stepwell import sdk

    with sdk.trajectory(prompt="gsm8k/17", group="gsm8k/17@5") as t:
        step = sdk.submit_step(prompt_ids=[1, 2, 3], response_ids=[4, 5], logprobs=[-0.1, -0.2], policy_version=5)
        sdk.submit_step(messages=[{"role": "user", "content": "again"}], response="sure")
        t.reward(1.0, name="unit_tests")

    sdk.submit_feedback(step=step, rating=4, scale=5, author="ann", comment="terse, but right")
    sdk.submit_feedback(chosen=step, rejected=other)
    sdk.flush(committed=True)

A call checks its input, queues it and returns the id; a background thread delivers. Invalid input raises `InvalidRecord` naming
the field. Trouble with delivery never raises into the agent's loop: it is counted, logged once (logger `stepwell.sdk`), and seen
in `sdk.status()`. While the gateway is away, records wait on this machine's disk; what a process leaves there at its end, the next one
delivers, in order and once.

    client = sdk.wrap(OpenAI())   # every call of it is recorded
    sdk.submit_step(openai_response=completion, messages=messages)   # or hand in a single answer

The gateway is the local one (http://127.0.0.1:8787, with the installation's token) unless STEPWELL_URL and STEPWELL_TOKEN or
`sdk.configure(url=…, token=…)` say otherwise. Every function has an async twin where it could wait: `aflush`; `asubmit_step` and
`asubmit_feedback` are there for symmetry. `Client` is for those who talk to several gateways.

Importing this costs next to nothing: pydantic is loaded with the first record, httpx2 with the first delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.errors import InvalidRecord
from stepwell.sdk._default import (
    aflush,
    asubmit_feedback,
    asubmit_step,
    close,
    configure,
    flush,
    status,
    submit_feedback,
    submit_step,
    trajectory,
    use,
    wrap,
)
from stepwell.sdk._trajectory import TrajectoryHandle, current_trajectory
from stepwell.sdk.client import Client, Flushed, Status

if TYPE_CHECKING:
    from stepwell.sdk.records import Feedback, Step, Trajectory, new_id

__all__ = [
    "Client",
    "Feedback",
    "Flushed",
    "InvalidRecord",
    "Status",
    "Step",
    "Trajectory",
    "TrajectoryHandle",
    "aflush",
    "asubmit_feedback",
    "asubmit_step",
    "close",
    "configure",
    "current_trajectory",
    "flush",
    "new_id",
    "status",
    "submit_feedback",
    "submit_step",
    "trajectory",
    "use",
    "wrap",
]

_RECORDS = ("Feedback", "Step", "Trajectory", "new_id")


def __getattr__(name: str) -> object:
    if name in _RECORDS:
        from stepwell.sdk import records

        return getattr(records, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
