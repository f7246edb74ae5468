"""`stepwell run`, as a process of its own, with a stand-in for the proxy."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

WAITS = """
import signal, sys
received = []
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, lambda number, _: received.append(number))
print("up", flush=True)
while not received:
    signal.sigtimedwait([], 0.02)
signal.sigtimedwait([], 0.3)
print(*[signal.Signals(number).name for number in received], flush=True)
sys.exit(9)
"""


def python(code: str) -> list[str]:
    return ["--", sys.executable, "-S", "-c", code]


@pytest.mark.parametrize(
    ("code", "exit_code", "end"),
    [
        ("pass", 0, ("completed", "exit code 0")),
        ("raise SystemExit(3)", 3, ("failed", "exit code 3")),
        ("import os; os.kill(os.getpid(), 9)", 137, ("failed", "killed by SIGKILL")),
    ],
)
def test_the_exit_code_comes_through_and_decides_the_state(
    stepwell: Run, fake_proxy: Any, code: str, exit_code: int, end: tuple[str, str]
) -> None:
    done = stepwell("run", *python(code))
    assert (done.returncode, done.stdout, done.stderr) == (exit_code, "", "")
    assert fake_proxy.states() == [
        ("http://stepwell.invalid/trajectories", "open", None),
        ("http://stepwell.invalid/trajectories/end", *end),
    ]


def test_streams_and_arguments_come_through(stepwell: Run, fake_proxy: Any) -> None:
    code = "import sys; print(sys.stdin.read(), sys.argv[1:]); print('oops', file=sys.stderr)"
    done = stepwell("run", *python(code), "--meta", "--help", input="hello")
    assert done.stdout == "hello ['--meta', '--help']\n"
    assert done.stderr == "oops\n"


def test_options_end_at_the_command_also_without_dashes(stepwell: Run, fake_proxy: Any) -> None:
    done = stepwell(
        "run", "--prompt", "p", sys.executable, "-S", "-c", "import sys; print(sys.argv[1:])", "--prompt", "q"
    )
    assert done.stdout == "['--prompt', 'q']\n"
    assert fake_proxy.asked[0][1]["prompt_id"] == "p"


def test_the_trajectory_says_what_was_given_at_both_ends(stepwell: Run, fake_proxy: Any) -> None:
    options = [
        "--prompt",
        "p 1",
        "--group",
        "g/1",
        "--split",
        "eval",
        "--trajectory",
        "tée/1",
        "--meta",
        "seed=3",
        "--meta",
        "note=a=b",
    ]
    assert stepwell("run", *options, *python("pass")).returncode == 0
    for _, body in fake_proxy.asked:
        assert body | {"state": 0, "reason": 0} == {
            "trajectory_id": "tée/1",
            "prompt_id": "p 1",
            "group_id": "g/1",
            "split": "eval",
            "metadata": {"seed": "3", "note": "a=b"},
            "state": 0,
            "reason": 0,
        }
    assert fake_proxy.users == ["tée/1", "tée/1"]


@pytest.mark.parametrize("version", ["7", "-9223372036854775808"])
def test_the_policys_version_is_declared_at_both_ends(stepwell: Run, fake_proxy: Any, version: str) -> None:
    stepwell("run", "--policy-version", version, *python("pass"))
    assert [body["policy_version"] for _, body in fake_proxy.asked] == [int(version)] * 2
    assert stepwell("run", "--policy-version", "9223372036854775808", *python("pass")).returncode == 2


def test_runs_side_by_side_stay_apart(fake_proxy: Any, tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys, time; me, other = map(pathlib.Path, sys.argv[1:]); me.touch()\n"
        "while not other.exists(): time.sleep(0.02)\n"
        "print(os.environ['STEPWELL_TRAJECTORY'], os.environ['HTTPS_PROXY'])"
    )
    names = ("one", "two")
    files = [tmp_path / name for name in names]
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "stepwell.cli", "run"),
                *("--trajectory", name, "--policy-version", str(number)),
                *(*python(code), str(files[number]), str(files[1 - number])),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, name in enumerate(names)
    ]
    said = [process.communicate(timeout=60)[0] for process in started]
    port = fake_proxy.port
    assert said == [f"{name} http://{name}:token-of-this-test@127.0.0.1:{port}\n" for name in names]
    assert sorted(zip(fake_proxy.users, (body["policy_version"] for _, body in fake_proxy.asked), strict=True)) == [
        *[("one", 0)] * 2,
        *[("two", 1)] * 2,
    ]


def test_each_run_is_a_new_trajectory(stepwell: Run, fake_proxy: Any) -> None:
    stepwell("run", *python("pass"))
    stepwell("run", *python("pass"))
    assert len({body["trajectory_id"] for _, body in fake_proxy.asked}) == 2


def test_the_agent_sees_proxy_certificates_gateway_and_trajectory(stepwell: Run, fake_proxy: Any) -> None:
    environment = {**os.environ, "NO_PROXY": "internal.example", "STEPWELL_GATEWAY__PORT": "7654"}
    done = stepwell(
        "run", "--trajectory", "a b", *python("import os, json; print(json.dumps(dict(os.environ)))"), env=environment
    )
    seen = json.loads(done.stdout)
    url = f"http://a%20b:token-of-this-test@127.0.0.1:{fake_proxy.port}"
    assert {seen[name] for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")} == {url}
    assert seen["NO_PROXY"] == "internal.example"
    assert "no_proxy" not in seen
    assert seen["STEPWELL_URL"] == "http://127.0.0.1:7654"
    assert seen["STEPWELL_TRAJECTORY"] == "a b"
    bundle = Path(seen["SSL_CERT_FILE"]).read_text()
    own = Path(seen["NODE_EXTRA_CA_CERTS"]).read_text()
    assert own.count("BEGIN CERTIFICATE") == 1
    assert own.strip() in bundle
    assert bundle.count("BEGIN CERTIFICATE") > 50  # the public ones too: other hosts are passed through undecrypted


def test_ca_files_named_before_stay_trusted(stepwell: Run, fake_proxy: Any, tmp_path: Path) -> None:
    corporate = tmp_path / "corporate.pem"
    corporate.write_text("-----BEGIN CERTIFICATE-----\nY29ycG9yYXRl\n-----END CERTIFICATE-----\n")
    environment = {**os.environ, "SSL_CERT_FILE": str(corporate)}
    code = "import os; print(open(os.environ['SSL_CERT_FILE']).read())"
    assert "Y29ycG9yYXRl" in stepwell("run", *python(code), env=environment).stdout


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"])
def test_a_signal_sent_to_run_reaches_the_agent_once(fake_proxy: Any, name: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "stepwell.cli", "run", *python(WAITS)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(getattr(signal, name))
    assert process.stdout.read() == f"{name}\n"
    assert process.wait(30) == 9
    assert fake_proxy.states()[-1][1:] == ("failed", "exit code 9")
    process.stdout.close()


@pytest.fixture
def in_terminal() -> Iterator[Callable[[str], tuple[int, subprocess.Popen[bytes]]]]:
    """Start `stepwell run` of some Python code in a terminal of its own; the terminal's other end, and the process."""
    opened: list[tuple[int, subprocess.Popen[bytes]]] = []

    def start(code: str) -> tuple[int, subprocess.Popen[bytes]]:
        ours, theirs = os.openpty()
        arguments = [sys.executable, "-m", "stepwell.cli", "run", *python(code)]
        first = f"import os, fcntl; os.setsid(); fcntl.ioctl(0, {termios.TIOCSCTTY}, 0); os.execv({sys.executable!r}, {arguments!r})"
        process = subprocess.Popen([sys.executable, "-S", "-c", first], stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        opened.append((ours, process))
        return opened[-1]

    yield start
    for terminal, process in opened:
        process.kill()
        process.wait()
        os.close(terminal)


def test_ctrl_c_in_the_terminal_reaches_the_agent(fake_proxy: Any, in_terminal: Any) -> None:
    terminal, process = in_terminal(WAITS)
    read_until(terminal, b"up\r\n")
    os.write(terminal, b"\x03")
    assert read_until(terminal, b"SIGINT\r\n").count(b"SIGINT") == 1
    assert process.wait(30) == 9


def test_ctrl_c_in_the_terminal_is_not_sent_on_a_second_time(fake_proxy: Any, in_terminal: Any) -> None:
    # This agent has left the group that the terminal sends to, so that all it could get is what `stepwell run` sends on.
    terminal, process = in_terminal(
        "import os, signal; os.setpgid(0, 0); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); print('up', flush=True)\n"
        "print('got', signal.sigtimedwait([signal.SIGINT], 1.0), flush=True)"
    )
    read_until(terminal, b"up\r\n")
    os.write(terminal, b"\x03")
    assert b"got None" in read_until(terminal, b"\r\n")
    assert process.wait(30) == 0


def read_until(descriptor: int, end: bytes) -> bytes:
    seen = b""
    while not seen.endswith(end):
        seen += os.read(descriptor, 1024)
    return seen


def test_the_agent_gets_the_default_disposition_of_sigpipe(stepwell: Run, fake_proxy: Any) -> None:
    code = "import signal, os; print(open('/proc/self/status').read())" if sys.platform == "linux" else "print()"
    done = stepwell("run", "--", "sh", "-c", "kill -PIPE $$")
    assert done.returncode == 128 + signal.SIGPIPE
    masks = stepwell("run", *python(code)).stdout
    blocked = next((line for line in masks.splitlines() if line.startswith("SigBlk")), "SigBlk:\t0")
    assert int(blocked.split()[1], 16) == 0


def test_a_command_that_is_not_there_is_127_and_a_failed_trajectory(stepwell: Run, fake_proxy: Any) -> None:
    done = stepwell("run", "--", "no-such-agent")
    assert done.returncode == 127
    assert done.stderr == "stepwell: no-such-agent could not be started: no such command\n"
    assert fake_proxy.states()[-1][1] == "failed"
    assert "could not be started" in (fake_proxy.states()[-1][2] or "")


def test_a_command_that_cannot_be_run_is_126(stepwell: Run, fake_proxy: Any, place: Path) -> None:
    (place / "agent.txt").write_text("no program")
    done = stepwell("run", "--", "./agent.txt")
    assert done.returncode == 126
    assert len(done.stderr.splitlines()) == 1
    assert fake_proxy.states()[-1][1] == "failed"


def test_without_a_proxy_nothing_is_started(stepwell: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        monkeypatch.setenv("STEPWELL_PROXY__RUN_PORT", str(held.getsockname()[1]))
        done = stepwell("run", *python("open('started', 'w')"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "start it with `stepwell up`" in done.stderr
    assert not (place / "started").exists()


def test_a_refused_trajectory_starts_nothing(stepwell: Run, fake_proxy: Any, place: Path) -> None:
    fake_proxy.refuse = (503, {"detail": "the spool is full"})
    done = stepwell("run", *python("open('started', 'w')"))
    assert (done.returncode, done.stderr) == (1, "stepwell: the proxy answered 503: the spool is full\n")
    assert not (place / "started").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--trajectory", "a:b"],
        ["--trajectory", "a\nb"],
        ["--trajectory", ""],
        ["--trajectory", "x" * 257],
        ["--meta", "seed"],
        ["--split", "test"],
    ],
)
def test_bad_options_are_one_clear_error(stepwell: Run, fake_proxy: Any, options: list[str]) -> None:
    done = stepwell("run", *options, *python("pass"))
    assert done.returncode == 2
    assert options[0] in done.stderr
    assert "Traceback" not in done.stderr
    assert not fake_proxy.asked


def test_the_agents_result_counts_also_when_the_end_is_refused(stepwell: Run, fake_proxy: Any, place: Path) -> None:
    code = "import pathlib, time; pathlib.Path('ready').touch()\n"
    code += "while not pathlib.Path('go').exists(): time.sleep(0.02)\nraise SystemExit(4)"
    with subprocess.Popen(
        [sys.executable, "-m", "stepwell.cli", "run", *python(code)], stderr=subprocess.PIPE, text=True
    ) as process:
        while not (place / "ready").exists():
            assert process.poll() is None
        fake_proxy.refuse = (503, {"detail": "the spool is full"})
        (place / "go").touch()
        _, said = process.communicate(timeout=30)
    assert process.returncode == 4
    assert "could not be ended" in said
