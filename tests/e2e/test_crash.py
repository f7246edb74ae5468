"""kill -9 of each process in turn, the supervisor last, under load: nothing acknowledged is lost, nothing is doubled.

Agents call through the proxy, a service posts to the gateway, a program uses the SDK, all the time. A call that was in flight when
the proxy died is there as `aborted`; so may be one whose last bytes had just passed, since the proxy does not wait for the disk.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai
import pytest

from stepwell import sdk
from stepwell.spool import SpoolReader
from stepwell.testing import ChatCall, Delivery, Reply

from .conftest import Installation, Row, Up, eventually

AGENTS = 2
INGEST_DEATHS = 2
HELD = "stays in flight"
SAID = [{"role": "user", "content": "hi"}]
JUST_ENDED = 3.0
"""Seconds before a death of the proxy in which the end of a call may not have reached the disk: a busy machine's."""


@dataclass
class Made:
    """A call as its agent saw it; times of the monotonic clock."""

    text: str
    started: float
    ended: float = 0.0
    response_id: str | None = None
    """None: it failed."""


@dataclass
class Load:
    """Everything that is being submitted, until `stop` is set."""

    installation: Installation
    stop: threading.Event = field(default_factory=threading.Event)
    calls: list[Made] = field(default_factory=list)
    posted: list[str] = field(default_factory=list)
    """Ids that the gateway acknowledged one by one."""
    submitted: list[str] = field(default_factory=list)
    """Ids given to the SDK, which repeats until they are acknowledged."""
    flushed: sdk.Flushed | None = None
    works: list[Future[None]] = field(default_factory=list)

    def start(self, pool: ThreadPoolExecutor) -> None:
        self.works += [pool.submit(self._post), pool.submit(self._submit)]
        self.works += [pool.submit(self._call, agent) for agent in range(AGENTS)]

    def check(self) -> None:
        """Raise what went wrong in one of the threads."""
        for work in self.works:
            if work.done():
                work.result()

    def _call(self, agent: int) -> None:
        client, number = self.installation.openai(f"agent-{agent}"), 0
        while not self.stop.is_set():
            number += 1
            made = Made(f"agent {agent} call {number}", time.monotonic())
            self.calls.append(made)
            try:
                stream = client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": made.text}], stream=True
                )
                ids = {chunk.id for chunk in stream}
            except (openai.APIError, httpx2.TransportError):  # the proxy is gone, or was in the middle of it
                self.stop.wait(0.1)
            else:
                (made.response_id,) = ids
            made.ended = time.monotonic()

    def _post(self) -> None:
        number = 0
        with httpx2.Client(trust_env=False, headers={"authorization": f"Bearer {self.installation.token}"}) as client:
            while not self.stop.wait(0.02):
                number += 1
                step: dict[str, Any] = {
                    "step_id": f"posted-{number}",
                    "trajectory_id": "posted",
                    "messages": SAID,
                    "response": "ja",
                }
                try:
                    answer = client.post(f"{self.installation.gateway}/api/v1/steps", json=step)
                except httpx2.TransportError:
                    continue
                if answer.status_code == 200:
                    assert answer.json()["items"][0]["status"] == "accepted"
                    self.posted.append(step["step_id"])

    def _submit(self) -> None:
        client = sdk.Client(self.installation.gateway, self.installation.token)
        while not self.stop.wait(0.02):
            number = len(self.submitted)
            self.submitted.append(
                client.submit_step(
                    step_id=f"sdk-{number}", trajectory="sdk", messages=SAID, response="ja", reward=float(number)
                )
            )
        self.flushed = client.flush(timeout=60)
        client.close()


@pytest.mark.timeout(400)
def test_kill_9_of_each_process_loses_and_doubles_nothing(installation: Installation) -> None:
    hold = threading.Event()

    def script(call: ChatCall) -> Reply:
        held = call.messages[-1]["content"] == HELD
        return Reply(
            content=f"Antwort {call.number} 👋 " * 3, delivery=Delivery(hold=hold) if held else Delivery(delay_ms=20)
        )

    installation.server.app.script = script
    up, load = installation.up(), Load(installation)
    with ThreadPoolExecutor(AGENTS + 2) as pool:
        load.start(pool)
        try:
            died = kill_the_proxy(installation, up, load)
            kill_and_wait(up, "gateway")
            work_goes_on(load)
            for _ in range(INGEST_DEATHS):
                wait_for_a_commit(installation)
                kill_and_wait(up, "ingest")
            work_goes_on(load)
            up.process.kill()
            up.process.wait()
            installation.up()  # while the orphans may still be draining
            work_goes_on(load)
        finally:
            load.stop.set()
            hold.set()
    load.check()
    installation.flush()
    check_submissions(installation, load)
    check_calls(installation, load, died)


def work_goes_on(load: Load) -> None:
    """Return when each way in has taken more."""
    calls, posted, submitted = len(load.calls), len(load.posted), len(load.submitted)

    def more() -> bool:
        load.check()
        answered = sum(made.response_id is not None for made in list(load.calls)[calls:])
        return answered > 4 and len(load.posted) > posted + 10 and len(load.submitted) > submitted + 10

    eventually(more, "work goes on")


def kill_and_wait(up: Up, name: str) -> float:
    """kill -9, and until the process is back; when it died."""
    died, pid = time.monotonic(), up.kill(name)
    eventually(lambda: (child := up.children().get(name)) and child.pid != pid, f"{name} starts again")
    return died


def wait_for_a_commit(installation: Installation) -> None:
    """Return in the middle of a round of ingest: steps have just been committed, the rest of the round has not."""
    versions = installation.data / "warehouse" / "steps.lance" / "_versions"
    before = {path.name for path in versions.iterdir()}
    eventually(lambda: {path.name for path in versions.iterdir()} - before, "steps are committed", pause=0.001)


def kill_the_proxy(installation: Installation, up: Up, load: Load) -> float:
    """With one call surely in flight: its first chunk is there, and its request is on disk."""
    work_goes_on(load)
    client = installation.openai("held")
    stream = iter(client.chat.completions.create(model="m", messages=[{"role": "user", "content": HELD}], stream=True))
    next(stream)

    def on_disk() -> bool:
        with SpoolReader(installation.data / "spool" / "proxy.db") as reader:
            records = reader.read(0, limit=100_000)
            return any(HELD.encode() in record.body and record.kind == "exchange.request" for record in records)

    eventually(on_disk, "the request is recorded")
    died = kill_and_wait(up, "proxy")
    with pytest.raises((openai.APIError, httpx2.TransportError)):
        list(stream)
    work_goes_on(load)
    return died


def check_submissions(installation: Installation, load: Load) -> None:
    rows = installation.query("select step_id, producer, step_reward, trajectory_id from steps where dialect is null")
    stored = Counter(row["step_id"] for row in rows)
    assert set(stored.values()) == {1}
    assert len(load.posted) == len(set(load.posted)) > 40
    assert set(load.posted) <= stored.keys()  # acknowledged: there
    assert load.flushed is not None
    assert (load.flushed.unacknowledged, load.flushed.refused, load.flushed.dropped) == (0, 0, 0)
    assert {row["step_id"] for row in rows if row["trajectory_id"] == "sdk"} == set(load.submitted)
    rewards = {row["step_id"]: row["step_reward"] for row in rows if row["trajectory_id"] == "sdk"}
    assert rewards == {step: float(step.removeprefix("sdk-")) for step in load.submitted}  # not added up twice


def check_calls(installation: Installation, load: Load, died: float) -> None:
    rows = installation.query(
        "select step_id, call_id, response_id, status, prompt_ids, response_ids, messages from steps where dialect is not null"
    )
    assert max(Counter(row["step_id"] for row in rows).values()) == 1
    assert max(Counter(row["response_id"] for row in rows if row["response_id"]).values()) == 1
    by_text: dict[str, list[Row]] = {}
    for row in rows:
        by_text.setdefault(text_of(row), []).append(row)
    (held,) = by_text.pop(HELD)
    assert held["status"] == "aborted"
    assert by_text.keys() <= {made.text for made in load.calls}
    logged = {call.call_id: call for call in installation.server.calls}
    whole = 0
    for made in load.calls:
        found = by_text.get(made.text, [])
        assert len(found) <= 1, f"{made.text} became {len(found)} steps"
        if made.response_id is None:
            continue
        call, status = logged[made.response_id], found[0]["status"] if found else None
        assert call.delivered
        if status != "ok" and made.started <= died <= made.ended + JUST_ENDED:
            assert status in (None, "aborted")
            continue
        assert [row["response_id"] for row in found] == [call.call_id], made
        assert status == "ok"
        assert found[0]["prompt_ids"] == call.prompt_ids
        assert found[0]["response_ids"] == call.choices[0].response_ids
        whole += 1
    assert whole > 20


def text_of(row: Row) -> str:
    text: str = json.loads(row["messages"])[-1]["content"][0]["text"]
    return text
