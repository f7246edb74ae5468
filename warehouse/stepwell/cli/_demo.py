"""`stepwell demo`: the main job once, for real, and checked on the spot."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli import _options as options

if TYPE_CHECKING:
    from stepwell.cli._demo_agents import Rollout, Server
    from stepwell.cli._demo_check import Report
    from stepwell.cli._settings import Settings
    from stepwell.cli._stack import Stack
    from stepwell.warehouse import Warehouse

_DATASET = "demo"


def demo(
    config: options.Config = None,
    data: options.Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object on stdout")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run nothing: check what the last demo left in the data folder once more")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Then keep the stack up, for the dashboard, until Ctrl-C")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="As --serve, with agents that go on working")] = False,
) -> None:
    """See the main job run: an unmodified agent, the proxy, the warehouse, a merged batch.

    A scripted server takes the place of api.openai.com. An ordinary agent on the official OpenAI SDK solves 4 tasks 4 times over
    behind the proxy; its calls become steps, rewards are sent, a dataset is frozen and read back as prefix trees, and all of it is
    compared with what the server says it sampled. Exit code 1 when anything differs. No network, no API key.
    """
    from stepwell.cli import _demo_show as show
    from stepwell.cli._settings import load_settings

    started = time.monotonic()
    settings = load_settings(config, data=data, proxy={"port": 0, "run_port": 0}, gateway={"port": 0})
    # Always in the data folder: a warehouse that others work with is no place for a demonstration.
    settings = settings.model_copy(update={"warehouse": None})
    folder = settings.data / "demo"
    run_id = _last_run(folder) if verify else _perform(settings, folder)
    report = _check(settings, folder, run_id)
    print(show.as_json(report) if as_json else show.as_table(report, time.monotonic() - started))  # noqa: T201
    for problem in report.problems:
        _say(f"MISMATCH {problem}")
    if report.mismatches:
        raise typer.Exit(1)
    if not as_json:
        print("\n" + show.what_next(settings.data, _program()))  # noqa: T201
    if serve or live:
        from stepwell.cli._demo_serve import serve as keep_up

        keep_up(settings, folder, live=live, say=_say, reward=_rewards)


def _perform(settings: Settings, folder: Path) -> str:
    """Run everything up to the frozen dataset; the run's id, by which `--verify` finds it again."""
    from stepwell.cli._demo_agents import agent_file, scripted_server
    from stepwell.cli._stack import Stack
    from stepwell.errors import SettingsError

    agent_file()
    run_id = uuid.uuid4().hex[:8]
    ours = not Path(settings.warehouse_uri).exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot use the data folder {settings.data}: {error.strerror}") from error
    _say("starting a scripted server in the place of api.openai.com")
    with scripted_server(folder / f"{run_id}.calls.jsonl") as server:
        _say(f"starting proxy, gateway and ingest on {settings.data}")
        with Stack(routed(settings, server)) as stack:
            stack.wait_ready()
            rollouts = _agents(stack, _prefix(run_id))
            _say("sending a reward for each rollout: sdk.submit_feedback(trajectory=…, reward=…)")
            _rewards(stack, rollouts)
            _say("waiting until everything is committed")
            _flush()
            _freeze(settings, folder, run_id)
    _say("stack stopped; compacting what it wrote")
    # A fragment for each half second becomes one. What was there before may have readers, so its old versions stay for a while.
    warehouse = _open(settings)
    _ = warehouse.maintain(keep=timedelta(0)) if ours else warehouse.maintain()
    return run_id


def routed(settings: Settings, server: Server) -> Settings:
    """As a user would route a model to a local engine, in `stepwell.toml`."""
    from stepwell.cli._demo_agents import HOST
    from stepwell.proxy import Route

    route = Route(host=HOST, upstream=server.url, engine="vllm", ca=server.ca)
    proxy = settings.proxy.model_copy(update={"routes": (route,)})
    return settings.model_copy(update={"proxy": proxy})


def _agents(stack: Stack, prefix: str) -> list[Rollout]:
    from stepwell.cli._demo_agents import ROLLOUTS, TASKS, run_agents
    from stepwell.testing import DEMO_TASKS

    _say(f"running the agent {TASKS} tasks x {ROLLOUTS} rollouts: stepwell run -- python examples/unmodified_agent.py")
    prompts = [task.prompt_id for task in DEMO_TASKS]
    return run_agents(prefix, prompts, stack.environment(), _progress)


def _progress(done: int, of: int) -> None:
    """A line that counts up on a terminal; elsewhere a line now and then."""
    if sys.stderr.isatty():
        _say(f"  {done}/{of} rollouts", end="\r" if done < of else "\n")
    elif done % 4 == 0:
        _say(f"  {done}/{of} rollouts")


def _rewards(stack: Stack, rollouts: list[Rollout]) -> None:
    """1 for a right answer, 0 for a wrong one, sent as any service would."""
    from stepwell import sdk
    from stepwell.testing import DEMO_TASKS

    sdk.configure(url=f"http://127.0.0.1:{stack.ports.gateway}")
    for rollout in rollouts:
        right = rollout.answer == DEMO_TASKS[rollout.task].answer
        sdk.submit_feedback(trajectory=rollout.trajectory_id, reward=float(right), name="right_answer", author="demo")


def _flush() -> None:
    from stepwell import sdk
    from stepwell.errors import DeliveryError

    flushed = sdk.flush(timeout=60, committed=True)
    if flushed.unacknowledged or flushed.refused:
        raise DeliveryError(
            f"{flushed.unacknowledged} rewards were not taken and {flushed.refused} refused by the gateway"
        )
    sdk.close()


def _freeze(settings: Settings, folder: Path, run_id: str) -> None:
    warehouse = _open(settings)
    where = f"trainable AND starts_with(trajectory_id, '{_prefix(run_id)}')"
    dataset = warehouse.datasets.create(_DATASET, where, note="made by stepwell demo")
    _say(f"frozen: dataset {dataset.name}, version {dataset.version}, {dataset.steps} steps")
    (folder / "last.json").write_text(json.dumps({"run": run_id, "version": dataset.version}))


def _check(settings: Settings, folder: Path, run_id: str) -> Report:
    from stepwell.cli._demo_check import check, read_log

    version = json.loads((folder / "last.json").read_bytes())["version"]
    warehouse = _open(settings)
    dataset = warehouse.datasets.get(_DATASET, version)
    return check(warehouse, dataset, read_log(folder / f"{run_id}.calls.jsonl"), _prefix(run_id))


def _open(settings: Settings) -> Warehouse:
    from stepwell.warehouse import Warehouse

    return Warehouse.open(settings.warehouse_uri, storage_options=settings.store.storage_options(), create=False)


def _last_run(folder: Path) -> str:
    from stepwell.errors import SettingsError

    try:
        return str(json.loads((folder / "last.json").read_bytes())["run"])
    except FileNotFoundError:
        raise SettingsError(f"no demo has run on {folder.parent} yet; `stepwell demo` runs one") from None


def _program() -> str:
    """How to call this command from here: after `make demo` it is not on the PATH."""
    return "stepwell" if shutil.which("stepwell") else os.path.relpath(sys.argv[0])


def _prefix(run_id: str) -> str:
    return f"demo-{run_id}-"


def _say(text: str, end: str = "\n") -> None:
    print(f"stepwell: {text}" if not text.startswith(" ") else text, file=sys.stderr, end=end, flush=True)  # noqa: T201
