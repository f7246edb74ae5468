"""What the SDK costs the program that uses it: microseconds of CPU per call, milliseconds of CPU to import it.

Least of several rounds, in the calling thread: delivery has its own, and the machine has other work.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from array import array

import numpy as np

from stepwell import sdk
from stepwell.testing import MemoryGateway

__all__ = ["measure"]

_ROUNDS = 60
_CALLS = 30
"""In a row: as many as fit into one batch of any of these, so that none is measured beside the delivery of the ones before."""
_PROMPT, _RESPONSE = 8_206, 160
_IMPORT = """
import time
start = time.process_time()
from stepwell import sdk
{then}
print(time.process_time() - start, flush=True)
import os
os._exit(0)
"""
_FIRST = "sdk.submit_step(prompt_ids=[1], response_ids=[2])"


def measure() -> dict[str, float]:
    """`enqueue_us` is the most that is promised to take under 50 µs: 500 ids in lists, or arrays of any length."""
    draw = random.Random(0)
    prompt = [draw.randrange(150_000) for _ in range(_PROMPT)]
    response, logprobs = prompt[:_RESPONSE], [-draw.random() for _ in range(_RESPONSE)]
    short = _microseconds(prompt[: 500 - _RESPONSE], response, logprobs)
    arrays = _microseconds(array("i", prompt), array("i", response), array("f", logprobs))
    wide = _microseconds(np.array(prompt), np.array(response), np.array(logprobs))  # what numpy makes of Python's lists
    return {
        "enqueue_us": round(max(short, arrays, wide), 1),
        "enqueue_list_500_us": round(short, 1),
        "enqueue_array_8k_us": round(arrays, 1),
        "enqueue_int64_8k_us": round(wide, 1),
        "enqueue_list_8k_us": round(_microseconds(prompt, response, logprobs), 1),
        "import_cpu_ms": round(_process_ms(_IMPORT.format(then="")), 1),
        "first_submit_cpu_ms": round(_process_ms(_IMPORT.format(then=_FIRST)), 1),
    }


def _microseconds(prompt_ids: object, response_ids: object, logprobs: object) -> float:
    fields = {"prompt_ids": prompt_ids, "response_ids": response_ids, "logprobs": logprobs, "trajectory": "t"}
    with sdk.Client("http://gateway", "t", transport=MemoryGateway()) as client:
        client.submit_step(**fields, policy_version=1)
        best = float("inf")
        for _ in range(_ROUNDS):
            client.flush()
            start = time.thread_time()
            for _ in range(_CALLS):
                client.submit_step(**fields, policy_version=1)
            best = min(best, (time.thread_time() - start) / _CALLS)
    return best * 1e6


def _process_ms(program: str) -> float:
    return min(_output(program) for _ in range(5)) * 1e3


def _output(program: str) -> float:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout)
