"""How much of the work that merging saves a trainer gets back as time. Measured by `tests.trainer.speed` in its environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".tools" / "trainer"


def speedup_over_flop_ratio(scale: float = 1) -> dict[str, Any]:
    """The least over the workloads, and the details; None, with the reason, where there is no PyTorch.

    `scale` multiplies the trajectories of a group.
    """
    made = subprocess.run([ROOT / ".ci" / "trainer", "--make"], stdout=subprocess.PIPE, text=True, check=True)
    if not (PLACE / ".made").exists():
        return {"speedup_over_flop_ratio": None, "details": {"speed": made.stdout.strip()}}
    program = [str(PLACE / "bin" / "python"), "-m", "tests.trainer.speed", str(scale)]
    answer = subprocess.run(program, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    workloads = json.loads(answer.stdout)
    least = min(found["speedup_over_flop_ratio"] for found in workloads.values())
    return {"speedup_over_flop_ratio": least, "details": {"speed": workloads}}
