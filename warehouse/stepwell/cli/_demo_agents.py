"""The demo's cast: a scripted server in the place of OpenAI, and an ordinary agent run several times over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from stepwell.errors import MissingExtra, SettingsError, StepwellError

HOST = "api.openai.com"
TASKS = 4
ROLLOUTS = 4


@dataclass(frozen=True, slots=True)
class Server:
    """The running scripted server: where it listens, and the authority that signed its certificate."""

    url: str
    ca: Path


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt at one task, and the answer that the agent printed (None: it failed)."""

    trajectory_id: str
    task: int
    answer: str | None


def agent_file() -> Path:
    """The example agent: in a clone under `examples/`, in an installation beside this module.

    Raises:
        SettingsError: it is in neither place.
        MissingExtra: the official OpenAI SDK, which it is written on, is not installed.
    """
    clone = Path(__file__).parents[3] / "examples" / "unmodified_agent.py"
    found = next((path for path in (clone, Path(__file__).with_name("unmodified_agent.py")) if path.is_file()), None)
    if found is None:
        raise SettingsError(f"the example agent is not at {clone}; run the demo from a clone")
    if find_spec("openai") is None:
        raise MissingExtra("openai", "demo")
    return found


@contextmanager
def scripted_server(log: Path) -> Iterator[Server]:
    """The server as a process of its own, writing what it sampled to `log`; stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="stepwell-demo-") as folder:
        ca = Path(folder) / "ca.pem"
        command = [sys.executable, "-P", "-m", "stepwell.testing", "--port", "0", "--watch-stdin"]
        command += ["--script", "stepwell.testing:demo_script", "--log", str(log), "--ca-out", str(ca)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                yield Server(f"https://127.0.0.1:{_port(process)}", ca)
            finally:
                process.terminate()


def _port(process: subprocess.Popen[bytes]) -> int:
    line = process.stdout.readline() if process.stdout is not None else b""
    if not line:
        raise StepwellError(f"the scripted server did not start (exit code {process.wait()}); what it printed says why")
    return int(json.loads(line)["port"])


def run_agents(
    prefix: str, prompts: list[str], environment: Mapping[str, str], progress: Callable[[int, int], None]
) -> list[Rollout]:
    """Run every rollout of every task through `stepwell run`, a few at a time. Trajectory ids begin with `prefix`."""
    agent = agent_file()
    jobs = [(task, rollout) for task in range(TASKS) for rollout in range(ROLLOUTS)]
    done: list[Rollout] = []
    with ThreadPoolExecutor(max_workers=min(8, 2 * (os.cpu_count() or 2))) as pool:
        calls = [
            pool.submit(_rollout, agent, prefix, prompts[task], task, rollout, environment) for task, rollout in jobs
        ]
        for call in calls:
            done.append(call.result())
            progress(len(done), len(jobs))
    return done


def _rollout(agent: Path, prefix: str, prompt: str, task: int, rollout: int, environment: Mapping[str, str]) -> Rollout:
    trajectory = f"{prefix}{prompt}-{rollout}"
    command = [sys.executable, "-P", "-m", "stepwell.cli", "run", "--prompt", prompt, "--group", f"{prefix}{prompt}"]
    command += ["--trajectory", trajectory, "--meta", "source=demo", "--"]
    command += [sys.executable, str(agent), "--task", str(task), "--seed", str(rollout)]
    ended = subprocess.run(
        command, env={**environment, "OPENAI_API_KEY": "sk-demo"}, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise StepwellError(f"the agent of {trajectory} ended with exit code {ended.returncode}: {last}")
    return Rollout(trajectory, task, json.loads(ended.stdout.splitlines()[-1])["answer"])
