"""`stepwell demo` finds nothing wrong with what it did, and finds everything that is made wrong afterwards."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import httpx2
import lance
import pyarrow as pa
import pytest

from .conftest import clean_environment, run_stepwell

KEYS = {
    *("calls", "steps", "trajectories", "groups", "engine_steps", "tokens_unmerged", "tokens_merged", "merge_ratio"),
    *("bytes_per_step", "sampled_tokens", "loss_terms", "mismatches", "dataset", "dataset_fingerprint"),
}
pytestmark = pytest.mark.timeout(400)  # the demo itself is part of the first test's time

Verify = Callable[[], "CompletedProcess[str]"]


@pytest.fixture(scope="module")
def performed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    """The demo, run once: its data folder and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    environment = clean_environment(folder / "home")
    return folder, run_stepwell("demo", "--json", "--data", "data", env=environment, cwd=folder)


@pytest.fixture
def copy(performed: tuple[Path, CompletedProcess[str]], tmp_path: Path) -> Path:
    """A copy of the data folder, to be spoilt."""
    return shutil.copytree(performed[0] / "data", tmp_path / "data")


@pytest.fixture
def verify(copy: Path, tmp_path: Path) -> Verify:
    environment = clean_environment(tmp_path / "home")
    return lambda: run_stepwell("demo", "--verify", "--json", "--data", str(copy), env=environment, cwd=tmp_path)


def numbers(done: CompletedProcess[str]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_demo_ends_well_and_says_what_was_asked(performed: tuple[Path, CompletedProcess[str]]) -> None:
    _, done = performed
    assert done.returncode == 0, done.stderr
    result = numbers(done)
    assert result.keys() == KEYS
    assert result["mismatches"] == 0
    assert (result["trajectories"], result["groups"], result["dataset"]) == (16, 4, "demo@1")
    assert 48 <= result["calls"] == result["steps"] == result["engine_steps"] <= 80
    assert result["sampled_tokens"] == result["loss_terms"] > 1000
    assert result["merge_ratio"] == pytest.approx(result["tokens_unmerged"] / result["tokens_merged"], abs=0.001)
    assert result["merge_ratio"] > 3
    assert result["bytes_per_step"] > 0


def test_the_numbers_are_those_of_the_servers_log(performed: tuple[Path, CompletedProcess[str]]) -> None:
    folder, done = performed
    (log,) = (folder / "data" / "demo").glob("*.calls.jsonl")
    calls = [json.loads(line) for line in log.read_bytes().splitlines()]
    result = numbers(done)
    assert result["calls"] == len(calls)
    assert result["sampled_tokens"] == sum(len(choice["response_ids"]) for call in calls for choice in call["choices"])
    assert result["tokens_unmerged"] == result["sampled_tokens"] + sum(len(call["prompt_ids"]) for call in calls)


def test_verifying_what_is_as_it_was(performed: tuple[Path, CompletedProcess[str]], verify: Verify) -> None:
    done = verify()
    assert (done.returncode, done.stderr) == (0, "")
    on_disk = {"bytes_per_step": 0}  # a copy may take other blocks
    assert numbers(done) | on_disk == numbers(performed[1]) | on_disk


def steps_of(data: Path) -> Any:
    return lance.dataset(data / "warehouse" / "steps.lance")


def some_step(data: Path, *, base: bool) -> pa.Table:
    """One whole row: of a step that others are stored as differences to, or of one that nothing is built on."""
    rows = steps_of(data).to_table(filter="ledger IS NULL")
    bases = set(rows["base_id"].to_pylist())
    place = next(place for place, step in enumerate(rows["step_id"].to_pylist()) if (step in bases) == base)
    return rows.slice(place, 1)


def rewrite(data: Path, row: pa.Table, column: str, change: Callable[[Any], Any]) -> None:
    """Store a row again with one column changed, behind Stepwell's back."""
    field = row.schema.field(column)
    changed = pa.array([change(row[column][0].as_py())], field.type)
    row = row.set_column(row.column_names.index(column), field, changed)
    dataset = steps_of(data)
    dataset.delete(f"step_id = '{row['step_id'][0].as_py()}'")
    lance.write_dataset(row, data / "warehouse" / "steps.lance", mode="append")


def one_more(ids: list[int]) -> list[int]:
    return [*ids[:-1], ids[-1] + 1]


@pytest.mark.parametrize(
    ("base", "column", "change", "words"),
    [
        (False, "response_ids", one_more, "read back differ from those sampled"),
        (True, "response_ids", one_more, "read back differ from those sampled"),
        (False, "response_ids", lambda ids: [ids[1], ids[0], *ids[2:]], "are not the tokens sampled"),
        (False, "logprobs", lambda values: [*values[:-1], values[-1] - 0.25], "the logprobs of"),
        (False, "response_id", lambda _: "chatcmpl-made-up", "which the server did not give"),
    ],
)
def test_a_stored_value_that_was_altered(
    copy: Path, verify: Verify, base: bool, column: str, change: Callable[[Any], Any], words: str
) -> None:
    rewrite(copy, some_step(copy, base=base), column, change)
    done = verify()
    assert done.returncode == 1
    mismatches = [line for line in done.stderr.splitlines() if line.startswith("stepwell: MISMATCH ")]
    assert any(words in line for line in mismatches), done.stderr
    assert numbers(done)["mismatches"] >= len(mismatches) > 0


@pytest.mark.parametrize("base", [False, True])
def test_a_step_that_was_dropped(copy: Path, verify: Verify, base: bool) -> None:
    row = some_step(copy, base=base)
    steps_of(copy).delete(f"step_id = '{row['step_id'][0].as_py()}'")
    done = verify()
    assert done.returncode == 1
    assert done.stderr.startswith("stepwell: ")
    assert "Traceback" not in done.stderr


def test_a_call_that_is_missing_from_the_servers_log(copy: Path, verify: Verify) -> None:
    """A step too many, as far as the log goes."""
    (log,) = (copy / "demo").glob("*.calls.jsonl")
    first, *others = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(others))
    done = verify()
    assert done.returncode == 1
    assert f"a step claims the answer {json.loads(first)['call_id']}" in done.stderr
    assert numbers(done)["mismatches"] >= 2  # that, and loss terms that nobody sampled


def test_a_call_that_never_became_a_step(copy: Path, verify: Verify) -> None:
    """One more in the log than was captured."""
    (log,) = (copy / "demo").glob("*.calls.jsonl")
    content = log.read_bytes()
    extra = json.loads(content.splitlines()[0]) | {"call_id": "chatcmpl-lost"}
    log.write_bytes(content + json.dumps(extra).encode() + b"\n")
    done = verify()
    assert done.returncode == 1
    assert "call chatcmpl-lost became 0 steps" in done.stderr


def test_there_is_nothing_to_verify_where_no_demo_ran(tmp_path: Path) -> None:
    environment = clean_environment(tmp_path / "home")
    done = run_stepwell("demo", "--verify", "--data", "nowhere", env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"stepwell: no demo has run on {tmp_path / 'nowhere'} yet; `stepwell demo` runs one\n"


def listed(http: httpx2.Client) -> list[str]:
    """The trajectory of each step that there is."""
    return [step["trajectory_id"] for step in http.get("/api/v1/steps", params={"limit": 500}).json()["items"]]


def test_the_stack_stays_up_and_agents_go_on(copy: Path, tmp_path: Path) -> None:
    """`--live`, until it is told to stop: what a dashboard asks for grows."""
    environment = clean_environment(tmp_path / "home")
    command = [sys.executable, "-P", "-m", "stepwell.cli", "demo", "--verify", "--live", "--data", str(copy)]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = next(line for line in process.stdout if line.startswith("The dashboard:")).split()[2]
            token = (tmp_path / "home" / "token").read_text().strip()
            assert token not in address, "no terminal: no token"
            with httpx2.Client(base_url=address, headers={"authorization": f"Bearer {token}"}) as http:
                assert "Stepwell" in http.get("/").text
                before = listed(http)
                while not any(name.startswith("live-") for name in listed(http)):
                    time.sleep(0.5)
                assert len(listed(http)) > len(before) >= 48
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0
