"""Steps through HTTP: what one of them costs the gateway's process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import orjson
import psutil  # type: ignore[import-untyped,unused-ignore]
import pyarrow as pa
from numpy.typing import NDArray

CONVERSATIONS, TURNS = 64, 20
OPENING, GROWTH, ANSWER = 416, 410, 160
VOCABULARY = 150_000
BATCH = 50
TOKEN = "benchmark"

_RUN = """
import json, sys
from pathlib import Path
from stepwell.gateway import GatewayConfig, run_gateway
data, token = sys.argv[1:]
run_gateway(GatewayConfig(port=0), data=Path(data), home=Path(data), token=token, warehouse=data + "/warehouse",
            storage_options=None, ready=lambda said: print(json.dumps(said), flush=True))
"""


@dataclass(frozen=True)
class Turn:
    """One call: ids as 32-bit integers, logprobs as 32-bit floats."""

    step_id: str
    trajectory_id: str
    prompt: NDArray[np.int32]
    response: NDArray[np.int32]
    logprobs: NDArray[np.float32]


def turns(round_: str) -> Iterator[Turn]:
    """The workload, conversations side by side: every batch has prompts of all lengths about equally. Ids differ by round."""
    random = np.random.default_rng(7)
    whole = [random.integers(0, VOCABULARY, OPENING + GROWTH * TURNS, np.int32) for _ in range(CONVERSATIONS)]
    for number in range(TURNS):
        for conversation, ids in enumerate(whole):
            turn = (number + conversation) % TURNS
            name, length = f"{round_}.{conversation}", OPENING + GROWTH * turn
            answer = random.integers(0, VOCABULARY, ANSWER, np.int32)
            logprobs = -random.random(ANSWER, np.float32)
            yield Turn(f"{name}.{turn}", name, ids[:length], answer, logprobs)


def as_json(some: Sequence[Turn]) -> bytes:
    """The body of a request."""
    steps = [
        {
            "step_id": turn.step_id,
            "trajectory_id": turn.trajectory_id,
            "prompt_ids": turn.prompt,
            "response_ids": turn.response,
            "logprobs": turn.logprobs.astype(np.float64),  # written as Python's floats are
            "policy_version": 3,
        }
        for turn in some
    ]
    return orjson.dumps(steps, option=orjson.OPT_SERIALIZE_NUMPY)


def as_arrow(some: Sequence[Turn]) -> bytes:
    """The same as an Arrow IPC stream."""
    batch = pa.RecordBatch.from_pydict(
        {
            "step_id": [turn.step_id for turn in some],
            "trajectory_id": [turn.trajectory_id for turn in some],
            "prompt_ids": _lists([turn.prompt for turn in some]),
            "response_ids": _lists([turn.response for turn in some]),
            "logprobs": _lists([turn.logprobs for turn in some]),
            "policy_version": pa.array([3] * len(some), pa.int64()),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _lists(rows: Sequence[NDArray[Any]]) -> pa.Array:
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(np.concatenate(rows)))


FORMS = {
    "json": (as_json, "application/json"),
    "arrow": (as_arrow, "application/vnd.apache.arrow.stream"),
}


def measure(rounds: int) -> dict[str, float]:
    """Steps per second of the gateway's processor time, by form. The first round warms up and does not count."""
    rates: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as scratch, _gateway(Path(scratch)) as (process, client):
        for form, (write, kind) in FORMS.items():
            _send(client, f"{form}.warm", write, kind)
            before = _cpu(process)
            count = sum(_send(client, f"{form}.{number}", write, kind) for number in range(rounds))
            rates[f"steps_per_cpu_s_{form}"] = count / (_cpu(process) - before)
    return rates


def _send(client: httpx2.Client, round_: str, write: Any, kind: str) -> int:
    count = 0
    for some in batched(turns(round_), BATCH):
        answer = client.post("/api/v1/steps", content=write(some), headers={"content-type": kind}).json()
        statuses = [item["status"] for item in answer["items"]]
        assert statuses == ["accepted"] * len(some), answer
        count += len(some)
    return count


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def _gateway(folder: Path) -> Iterator[tuple[psutil.Process, httpx2.Client]]:
    command = [sys.executable, "-c", _RUN, str(folder), TOKEN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["port"]
            headers = {"authorization": f"Bearer {TOKEN}"}
            with httpx2.Client(
                base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=60
            ) as client:
                yield psutil.Process(process.pid), client
        finally:
            process.terminate()
