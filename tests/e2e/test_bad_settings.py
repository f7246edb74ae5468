"""What the user must set right is said in one clear line, with exit code 2, by every command that needs it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import clean_environment, free_ports, run_stepwell

FREE = ("--port", "0", "--run-port", "0", "--gateway-port", "0")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """AWS credentials are there and say nothing: what fails is the connection, not the search for them."""
    return clean_environment(
        tmp_path / "home",
        AWS_ACCESS_KEY_ID="testing",
        AWS_SECRET_ACCESS_KEY="canary-secret",
        AWS_CONFIG_FILE=os.devnull,
        AWS_EC2_METADATA_DISABLED="true",
    )


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("command", [["up"], ["demo"], ["run", "--", "true"], ["query", "select 1"], ["flush"]])
def test_an_unknown_key_in_the_file(command: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "stepwell.toml").write_text("[proxy]\nprot = 9000\n")
    done = run_stepwell(*command, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "proxy.prot" in done.stderr
    assert "stepwell.toml" in done.stderr
    assert "proxy.port" in done.stderr  # what was probably meant
    assert not (tmp_path / "stepwell-data").exists()


def test_an_unknown_variable(environment: dict[str, str], tmp_path: Path) -> None:
    done = run_stepwell("up", env=environment | {"STEPWELL_GATEWAY__PROT": "1"}, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "STEPWELL_GATEWAY__PROT" in done.stderr


@pytest.mark.parametrize(
    ("option", "setting"),
    [("--port", "proxy.port"), ("--run-port", "proxy.run_port"), ("--gateway-port", "gateway.port")],
)
def test_an_occupied_port(option: str, setting: str, taken: int, environment: dict[str, str], tmp_path: Path) -> None:
    """`up` ends, and with it what had started already; the line stands last, after the log of the processes."""
    done = run_stepwell("up", *FREE, option, str(taken), env=environment, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    own = [line for line in done.stderr.splitlines() if line.startswith("stepwell: ")]
    assert own == done.stderr.splitlines()[-1:]
    assert str(taken) in own[0]
    assert setting in own[0]


@pytest.mark.parametrize("command", ["proxy", "gateway"])
def test_an_occupied_port_of_one_process(command: str, taken: int, environment: dict[str, str], tmp_path: Path) -> None:
    done = run_stepwell(command, "--port", str(taken), env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    own = [line for line in done.stderr.splitlines() if line.startswith("stepwell: ")]
    assert own == done.stderr.splitlines()[-1:]
    assert f"{command}.port" in own[0]


@pytest.mark.parametrize("command", [["up", *FREE], ["ingest"], ["query", "select 1"]])
def test_an_object_store_that_cannot_be_reached(
    command: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    endpoint = f"http://127.0.0.1:{free_ports(1)[0]}"
    done = run_stepwell(
        *command,
        "--warehouse",
        "s3://nobucket/x",
        env=environment | {"STEPWELL_STORE__ENDPOINT": endpoint},
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    own = [line for line in done.stderr.splitlines() if line.startswith("stepwell: ")]
    assert own == done.stderr.splitlines()[-1:]
    assert "'nobucket'" in own[0]
    assert endpoint in own[0]
    assert "canary-secret" not in done.stderr
    assert "Traceback" not in done.stderr
