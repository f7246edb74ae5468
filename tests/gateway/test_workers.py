"""Workers: one question each, stopped when nobody wants the answer, and gone when the gateway is."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import InvalidRecord, StoreError
from stepwell.gateway import _workers
from stepwell.gateway._problems import Problem
from stepwell.gateway._warehouse import LazyWarehouse, Place, as_view
from stepwell.gateway._work import answer_of
from stepwell.gateway._workers import Workers
from stepwell.warehouse import BadQuery

STAND_IN = """
import json, os, sys, time
hello = sys.stdin.readline()
for line in sys.stdin:
    asked = json.loads(line)["asked"]
    if "sleep" in asked:
        open(asked["sleep"], "w").close()
        time.sleep(600)
    if "die" in asked:
        os._exit(asked["die"])
    answer = {"pid": os.getpid(), **json.loads(hello), **asked}
    print(asked.get("status", 200), json.dumps(answer), flush=True)
    if "then" in asked:
        os._exit(asked["then"])
"""


class Client:
    """A request whose client goes away when it is told."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}


@pytest.fixture(name="workers_of")
def _workers_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Workers]]:
    """Workers whose processes do as the question says."""
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **more: real([sys.executable, "-c", STAND_IN], **more))
    yield lambda **more: Workers(LazyWarehouse(Place("memory://", {"key": "secret"})), **more)


async def ask(workers: Workers, client: Client | None = None, **asked: Any) -> Any:
    answer = await workers.answer(client or Client(), "task", asked)  # type: ignore[arg-type]
    return json.loads(bytes(answer.body)) | {"code": answer.status_code}


async def test_one_is_kept_for_the_next_question(workers_of: Any) -> None:
    workers = workers_of()
    first, second = await ask(workers, x=1), await ask(workers, x=2)
    assert (first["x"], second["x"]) == (1, 2) and first["pid"] == second["pid"]
    assert first["uri"] == "memory://" and first["options"] == {"key": "secret"}
    assert (await ask(workers, status=422))["code"] == 422


async def test_two_at_once_and_the_rest_wait(workers_of: Any) -> None:
    found = await asyncio.gather(*(ask(workers := workers_of(), x=number) for number in range(1)))
    found += await asyncio.gather(*(ask(workers, x=number) for number in range(6)))
    assert [one["x"] for one in found] == [0, *range(6)] and len({one["pid"] for one in found}) <= 2


async def test_too_many(workers_of: Any, tmp_path: Path) -> None:
    workers, client = workers_of(), Client()
    busy = [asyncio.create_task(ask(workers, client, sleep=str(tmp_path / str(n)))) for n in range(_workers.WAITING)]
    await _there(tmp_path / "0", tmp_path / "1")
    with pytest.raises(Problem, match="at once") as refused:
        await ask(workers)
    assert refused.value.status == 503 and refused.value.headers["retry-after"]
    client.gone.set()
    for one in busy:
        with pytest.raises(Problem, match="went away"):
            await one
    assert (await ask(workers, x=1))["x"] == 1
    assert not (tmp_path / "2").exists()  # nobody waited for it any more


async def test_one_that_takes_long_holds_nobody_up(workers_of: Any, tmp_path: Path) -> None:
    workers, client = workers_of(), Client()
    task = asyncio.create_task(ask(workers, client, sleep=str(tmp_path / "a")))
    await _there(tmp_path / "a")
    assert [(await ask(workers, x=number))["x"] for number in range(3)] == [0, 1, 2]
    assert not task.done()
    client.gone.set()
    with pytest.raises(Problem, match="went away"):
        await task


async def test_a_client_that_goes_stops_the_work(workers_of: Any, tmp_path: Path) -> None:
    workers, client = workers_of(), Client()
    pid = (await ask(workers))["pid"]
    task = asyncio.create_task(ask(workers, client, sleep=str(tmp_path / "a")))
    await _there(tmp_path / "a")
    client.gone.set()
    with pytest.raises(Problem, match="went away"):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_request_that_is_cancelled_stops_the_work(workers_of: Any, tmp_path: Path) -> None:
    workers = workers_of()
    pid = (await ask(workers))["pid"]
    task = asyncio.create_task(ask(workers, sleep=str(tmp_path / "a")))
    await _there(tmp_path / "a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_time_is_limited(workers_of: Any, tmp_path: Path) -> None:
    workers = workers_of(limit=0.5)
    with pytest.raises(Problem, match=r"more than 0\.5 s") as refused:
        await ask(workers, sleep=str(tmp_path / "a"))
    assert refused.value.status == 503
    assert (await ask(workers, x=1))["x"] == 1


async def test_one_that_ends(workers_of: Any) -> None:
    """In the midst of a question: said so, after another attempt. Between two: nobody notices."""
    workers = workers_of()
    with pytest.raises(Problem, match="exit code 9"):
        await ask(workers, die=9)
    first = await ask(workers, then=0)
    second = await ask(workers, x=2)
    assert second["x"] == 2 and second["pid"] != first["pid"]


async def test_nothing_is_left_of_them(workers_of: Any) -> None:
    workers = workers_of()
    pid = (await ask(workers))["pid"]
    del workers
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_real_one_ends_with_its_gateway() -> None:
    """Also in the midst of its work: its pipe closes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stepwell.gateway._work"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b'{"uri": "/nowhere", "options": {}}\n{"task": "tree", "asked": {"where": "true"}}\n')
    process.stdin.flush()
    said = process.stdout.readline()
    assert said.startswith(b"503 ") and b"there is no warehouse at /nowhere" in said
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_real_one_ends_in_peace_when_nothing_is_asked() -> None:
    program = "from stepwell.gateway import _work; _work.IDLE = 0.1; _work._main()"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b'{"uri": "/nowhere", "options": {}}\n')
        process.stdin.flush()
        assert (process.wait(60), process.stderr.read()) == (0, b"")


@pytest.mark.parametrize(
    ("error", "status"),
    [(InvalidRecord("a", "b"), 422), (BadQuery("no SQL"), 422), (StoreError("away"), 503), (Problem(404, "none"), 404),
     (MemoryError(), 503), (RuntimeError("a secret"), 500)],
)  # fmt: skip
def test_whatever_happens_is_answered(error: BaseException, status: int, caplog: pytest.LogCaptureFixture) -> None:
    def task(_warehouse: Any, _asked: Any) -> dict[str, Any]:
        raise error

    code, document = answer_of(task, lambda: None, {})  # type: ignore[arg-type, return-value]
    assert code == document["status"] == status and document["title"] and "secret" not in document["detail"]
    assert ("a secret" in caplog.text) == (status == 500)


def test_a_warehouse_that_no_other_process_can_open(warehouse: Any) -> None:
    with pytest.raises(StoreError, match="in the memory of this process"):
        as_view(warehouse).place()


async def _there(*paths: Path) -> None:
    while not all(path.exists() for path in paths):
        await asyncio.sleep(0.01)
