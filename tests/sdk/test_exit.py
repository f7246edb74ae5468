"""Real processes: what a program that just ends, or forks, leaves at the gateway."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

_HEAD = """
import os, sys, multiprocessing
from stepwell import sdk
sdk.configure(sys.argv[1], sys.argv[2])
def step(name):
    sdk.submit_step(step_id=name, prompt_ids=[1], response_ids=[2])
"""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")


def run(code: str, url: str, token: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _HEAD + code, url, token]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=60)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # a child that hangs must not outlive the test
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def ids(gateway: Any) -> list[str]:
    return sorted(record.id.removeprefix("step.") for record in gateway.records())


def test_a_program_that_just_ends_has_delivered(gateway: Any, token: str) -> None:
    done = run("for n in range(200): step(f'{n:03}')", gateway.url, token)
    assert (done.returncode, done.stderr) == (0, "")
    assert ids(gateway) == [f"{number:03}" for number in range(200)]


def test_also_when_it_ends_by_an_exception(gateway: Any, token: str) -> None:
    done = run("with sdk.trajectory('t'): step('a'); raise KeyError('x')", gateway.url, token)
    assert done.returncode == 1
    assert "step.a" in [record.id for record in gateway.records()]
    assert gateway.bodies("trajectory")[-1]["reason"] == "KeyError"


def test_without_a_gateway_it_ends_within_the_bound_and_says_so(token: str) -> None:
    done = run("step('a')", "http://127.0.0.1:9", token)
    assert done.returncode == 0
    assert "1 records wait in" in done.stderr and "cannot be reached" in done.stderr


@needs_fork
def test_a_forked_child_sends_its_own_and_only_its_own(gateway: Any, token: str) -> None:
    code = """
for n in range(20): step(f'parent-{n:02}')
pid = os.fork()
if pid == 0:
    assert sdk.status().pending == 0 and sdk.status().acknowledged == 0
    step('child')
    sys.exit(0)     # atexit delivers
os.waitpid(pid, 0)
step('parent-end')
print(sdk.flush())
"""
    done = run(code, gateway.url, token)
    assert done.stderr == "" and "unacknowledged=0" in done.stdout
    assert ids(gateway) == ["child", *(f"parent-{number:02}" for number in range(20)), "parent-end"]
    assert "acknowledged=21" in done.stdout


@needs_fork
def test_forking_while_other_threads_submit_never_hangs(gateway: Any, token: str) -> None:
    code = """
import threading
stop = threading.Event()
def busy(name):
    n = 0
    while not stop.is_set() and n < 300:
        step(f'{name}-{n}'); n += 1
threads = [threading.Thread(target=busy, args=(name,)) for name in 'ab']
for thread in threads: thread.start()
pids = []
for child in range(6):
    pid = os.fork()
    if pid == 0:
        step(f'child-{child}')
        ok = sdk.flush(20).unacknowledged == 0
        os._exit(0 if ok else 1)
    pids.append(pid)
codes = [os.waitpid(pid, 0)[1] for pid in pids]
stop.set()
for thread in threads: thread.join()
sdk.flush()
print(codes)
"""
    done = run(code, gateway.url, token)
    assert done.stderr == "" and done.stdout.strip() == str([0] * 6)
    assert [name for name in ids(gateway) if name.startswith("child")] == [f"child-{child}" for child in range(6)]
    assert len(set(ids(gateway))) == len(ids(gateway))


@needs_fork
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_multiprocessing_worker_delivers_at_its_end(gateway: Any, token: str, method: str, tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        _HEAD
        + f"""
if __name__ == '__main__':
    context = multiprocessing.get_context('{method}')
    step('parent')
    workers = [context.Process(target=step, args=(f'worker-{{n}}',)) for n in range(2)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    print([worker.exitcode for worker in workers])
"""
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(program), gateway.url, token]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[0, 0]", "")
    assert ids(gateway) == ["parent", "worker-0", "worker-1"]
