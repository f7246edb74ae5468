"""`stepwell demo --serve` and `--live`: the stack stays up on the demo's data, for the dashboard; with `--live` agents go on working."""

from __future__ import annotations

import queue
import signal
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.cli._demo_agents import Rollout
    from stepwell.cli._settings import Settings
    from stepwell.cli._stack import Stack

Say = Callable[[str], None]
Reward = Callable[["Stack", "list[Rollout]"], None]
_PAUSE = 2.0
"""Seconds between two rounds of the agents."""


class _Stop:
    """Whether it is time to stop. A queue, since its put may be called from a signal handler, which an Event's set may not."""

    def __init__(self) -> None:
        self.asked = False
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ask(self, *_: object) -> None:
        self.asked = True
        self._wake.put(None)

    def wait(self, seconds: float | None = None) -> None:
        """So long, or until it is asked for."""
        if not self.asked:
            with suppress(queue.Empty):
                self._wake.get(timeout=seconds)


def serve(settings: Settings, folder: Path, *, live: bool, say: Say, reward: Reward) -> None:
    """Until Ctrl-C or SIGTERM. `folder` takes the log of the scripted server; `reward` judges the rollouts of a round.

    Raises:
        SettingsError: the stack cannot run on this data folder.
        StepwellError: the stack or the scripted server did not start, or agents fail.
    """
    from stepwell.cli._dashboard import shown_address
    from stepwell.cli._demo import routed
    from stepwell.cli._demo_agents import agent_file, scripted_server
    from stepwell.cli._stack import Stack

    stop = _Stop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop.ask)
    with ExitStack() as things:
        if live:
            agent_file()
            settings = routed(
                settings, things.enter_context(scripted_server(folder / f"{uuid.uuid4().hex[:8]}.live.jsonl"))
            )
        stack = things.enter_context(Stack(settings, failed=stop.ask))
        ports = stack.wait_ready()
        print(f"\nThe dashboard:  {shown_address(ports.gateway)}\nCtrl-C stops it.", flush=True)  # noqa: T201
        rounds = 0
        while live and not stop.asked:
            rounds += 1
            _work(stack, f"live-{uuid.uuid4().hex[:6]}-", reward, stop)
            say(f"  round {rounds} of the agents is done")
            stop.wait(_PAUSE)
        stop.wait()
        _let_go(stack)


def _work(stack: Stack, prefix: str, reward: Reward, stop: _Stop) -> None:
    """A round: each task, several times. Ctrl-C reaches the agents as well, whose failing is then none."""
    from stepwell.cli._demo_agents import run_agents
    from stepwell.errors import StepwellError
    from stepwell.testing import DEMO_TASKS

    prompts = [task.prompt_id for task in DEMO_TASKS]
    try:
        reward(stack, run_agents(prefix, prompts, stack.environment(), lambda _done, _of: None))
    except StepwellError:
        if not stop.asked:
            raise


def _let_go(stack: Stack) -> None:
    """What was submitted is delivered before the gateway goes; what ended the stack itself is told."""
    from stepwell import sdk
    from stepwell.errors import SettingsError

    sdk.flush(timeout=5)
    sdk.close()
    if stack.failure is not None:
        raise SettingsError(stack.failure)
