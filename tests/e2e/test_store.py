"""The object store goes away, comes back slow, refuses to be written to, is full, and is well again. Agents notice none of it.

That a call does not wait for the store is shown by what ends before the store is better: each trouble lasts until every way in has taken
more, and ingest has met it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx2
import pytest
from tests.stores import FaultyStore

from stepwell.testing import Reply
from stepwell.warehouse import verify

from .conftest import Installation, Up, eventually

AGENTS = 2
MORE = 5
SPOOLS = ("proxy", "gateway")


@dataclass
class Work:
    """Agents that call through the proxy and a service that posts to the gateway, until `stop`. Whatever one of them notices is raised."""

    installation: Installation
    stop: threading.Event = field(default_factory=threading.Event)
    answered: list[str] = field(default_factory=list)
    """Ids of the answers that agents got."""
    accepted: list[str] = field(default_factory=list)
    """Ids of the steps that the gateway acknowledged."""
    works: list[Future[None]] = field(default_factory=list)

    def start(self, pool: ThreadPoolExecutor) -> None:
        self.works = [pool.submit(self._post), *(pool.submit(self._call, agent) for agent in range(AGENTS))]

    def goes_on(self) -> bool:
        """Wait until each way in has taken more."""
        answered, accepted = len(self.answered), len(self.accepted)

        def more() -> bool:
            for work in self.works:
                if work.done():
                    work.result()
            return len(self.answered) >= answered + AGENTS * MORE and len(self.accepted) >= accepted + MORE

        return bool(eventually(more, "work goes on"))

    def _call(self, agent: int) -> None:
        client = self.installation.openai(f"agent-{agent}")
        while not self.stop.wait(0.05):
            said: Any = [{"role": "user", "content": f"{agent} {len(self.answered)}"}]
            stream = client.chat.completions.create(model="m", messages=said, stream=True)
            (answer,) = {chunk.id for chunk in stream}
            self.answered.append(answer)

    def _post(self) -> None:
        headers = {"authorization": f"Bearer {self.installation.token}"}
        with httpx2.Client(trust_env=False, headers=headers) as client:
            while not self.stop.wait(0.05):
                name = f"posted-{len(self.accepted)}"
                said = [{"role": "user", "content": "q"}]
                step = {"step_id": name, "trajectory_id": "posted", "messages": said, "response": "ja", "reward": 1.0}
                answer = client.post(f"{self.installation.gateway}/api/v1/steps", json=step)
                assert (answer.status_code, answer.json()["items"][0]["status"]) == (200, "accepted"), answer.text
                self.accepted.append(name)


def lag(installation: Installation) -> dict[str, float]:
    """Records that wait, by the name of their spool, as Prometheus is told."""
    text = httpx2.get(f"{installation.gateway}/metrics", trust_env=False).text
    found = [line.split() for line in text.splitlines() if line.startswith("stepwell_spool_lag_records{")]
    return {label.partition('producer="')[2].partition("-")[0]: float(value) for label, value in found}


def during(work: Work, up: Up, met: Callable[[], Any]) -> None:
    """One trouble: ingest meets it, work goes on all the same, and what it leaves is in the spools."""
    eventually(met, "ingest meets it")
    work.goes_on()
    assert min(lag(work.installation)[name] for name in SPOOLS) >= 1
    assert up.children().keys() == {"proxy", "gateway", "ingest"}


@pytest.mark.timeout(400)
def test_agents_notice_nothing_of_a_store_in_trouble(installation: Installation, faulty: FaultyStore) -> None:
    installation.place = faulty.place()
    installation.write_settings()
    installation.server.app.script = lambda call: Reply(content=f"Antwort {call.number} 👋")
    up, work = installation.up(), Work(installation)
    pids = {name: child.pid for name, child in up.children().items()}
    with ThreadPoolExecutor(AGENTS + 1) as pool:
        work.start(pool)
        try:
            eventually(
                lambda: any("commits.lance" in seen.path and seen.method == "PUT" for seen in [*faulty.seen]),
                "a commit",
            )
            trouble(work, up, faulty)
        finally:
            work.stop.set()
    installation.flush()
    assert {name: child.pid for name, child in up.children().items()} == pids, "nobody died of it"
    check_all_is_there_once(installation, work)


def trouble(work: Work, up: Up, faulty: FaultyStore) -> None:
    faulty.away()
    during(work, up, lambda: "keep what comes" in up.log.read_text() or "next try" in up.log.read_text())
    faulty.faults.latency = 0.05
    faulty.back()
    work.goes_on()
    for begin in (faulty.faults.denied, faulty.faults.full):
        refused = begin()
        during(work, up, partial(getattr, refused, "hits"))
        faulty.faults.remove(refused)
    faulty.faults.clear()


def check_all_is_there_once(installation: Installation, work: Work) -> None:
    """In the table itself: the views would hide what is double."""
    assert installation.place is not None
    table = installation.place.open(create=False).tables["steps"].dataset
    rows = table.to_table(columns=["step_id", "response_id", "status"], filter="ledger IS NULL").to_pylist()
    by_answer = Counter(row["response_id"] for row in rows if row["response_id"])
    posted = Counter(row["step_id"] for row in rows if not row["response_id"])
    assert by_answer == Counter(work.answered)
    assert posted == Counter(work.accepted)
    assert {row["status"] for row in rows} == {"ok"}
    found = verify(installation.place.uri, installation.place.options, deep=True)
    assert found.ok, [str(finding) for finding in found.findings]
