from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from stepwell.gateway import GatewayConfig, create_app
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._memory import Memory
from stepwell.spool import write_cursor

STEP: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2]}
KEY = {"idempotency-key": "one"}


def test_the_same_request_has_the_same_answer(api: Any) -> None:
    first = api.post("/steps", [STEP, {}], headers=KEY)
    again = api.post("/steps", [STEP, {}], headers=KEY)
    assert first.status_code == again.status_code == 200 and first.content == again.content
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
    assert len(api.steps()) == 1
    assert api.post("/steps", STEP, headers={"idempotency-key": "two"}).json() != first.json()


def test_a_refusal_is_repeated_too(api: Any) -> None:
    first = api.post("/steps", {}, headers=KEY)
    again = api.post("/steps", {}, headers=KEY)
    assert (again.status_code, again.content, again.headers["content-type"]) == (
        422,
        first.content,
        "application/problem+json",
    )
    bad = {"idempotency-key": "b", "content-type": "application/json"}
    assert [api.post("/steps", content=b"{", headers=bad).status_code for _ in range(2)] == [400, 400]


def test_another_body_or_place_under_the_same_key(api: Any) -> None:
    api.post("/steps", STEP, headers=KEY)
    answer = api.post("/steps", {**STEP, "reward": 1}, headers=KEY)
    assert (answer.status_code, answer.json()["field"]) == (422, "idempotency-key")
    assert api.post("/feedback", {"step_id": "s", "reward": 1}, headers=KEY).status_code == 200  # keys are per endpoint
    assert len(api.records()) == 2


@pytest.mark.parametrize("key", ["", "with space", "x" * 256, "naïve"])
def test_what_is_no_key(api: Any, key: str) -> None:
    answer = api.post("/steps", STEP, headers=[("idempotency-key", key.encode())])
    assert (answer.status_code, answer.json()["field"]) == (400, "idempotency-key")


def test_ids_that_are_made_up_follow_from_the_key(api_of: Any) -> None:
    """So that a request whose answer was lost with the process is recognised when it comes again."""
    ids = []
    for _ in range(2):
        api = api_of()
        answer = api.post("/steps", [STEP, STEP, {**STEP, "step_id": "given"}], headers=KEY)
        ids.append([item["id"] for item in answer.json()["items"]])
    assert ids[0] == ids[1] and len(set(ids[0])) == 3 and ids[0][2] == "given"


def test_what_is_for_now_only_is_not_remembered(api_of: Any) -> None:
    api = api_of(max_spool_bytes=1000)
    big = {**STEP, "metadata": {"x": "y" * 400}}
    assert api.post("/steps", {**big, "step_id": "a"}).status_code == 200
    assert api.post("/steps", {**big, "step_id": "b"}, headers=KEY).status_code == 503
    write_cursor(api.folder, {api.spool.producer: 1})
    assert api.spool.trim(1) == 1
    answer = api.post("/steps", {**big, "step_id": "b"}, headers=KEY)
    assert answer.json()["items"][0]["status"] == "accepted"


async def test_two_at_once_are_not_both_worked_on(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, go_on = threading.Event(), threading.Event()

    async def slow(entries: Any) -> Any:
        reached.set()
        await asyncio.to_thread(go_on.wait, 20)
        return [True] * len(entries)

    monkeypatch.setattr(Keeper, "keep", lambda self, entries: slow(entries))
    first = asyncio.create_task(asyncio.to_thread(api.post, "/steps", STEP, headers=KEY))
    await asyncio.to_thread(reached.wait, 20)
    second = await asyncio.to_thread(api.post, "/steps", STEP, headers=KEY)
    go_on.set()
    assert (second.status_code, second.headers["retry-after"]) == (409, "1")
    assert (await first).status_code == 200


def test_a_duplicate_is_known_after_ingest_has_taken_it(api: Any) -> None:
    """The spool forgets an id when it is trimmed; the gateway does not, for a day."""
    batch = [{**STEP, "step_id": name} for name in "ab"]
    feedback = {"feedback_id": "f", "step_id": "a", "reward": 1}
    for path, body in (("/steps", batch), ("/feedback", feedback), ("/steps", {**STEP, "step_id": "c"})):
        api.post(path, body)
    api.writer.flush(10)
    api.spool.trim(3)
    assert api.records() == []
    answers = [api.post("/steps", [*batch, {**STEP, "step_id": "c"}]), api.post("/feedback", feedback)]
    assert {item["status"] for answer in answers for item in answer.json()["items"]} == {"duplicate"}
    assert api.records() == []


def test_it_survives_a_restart(api_of: Any, warehouse: Any) -> None:
    api = api_of(GatewayConfig())
    first = api.post("/steps", STEP, headers=KEY)
    api.memory.close()
    memory = Memory(api.folder / "gateway.seen")
    app = create_app(writer=api.writer, spool_folder=api.folder, token="t", warehouse=warehouse, memory=memory)
    with TestClient(app, base_url="http://127.0.0.1") as http:
        headers = {**KEY, "authorization": api.http.headers["authorization"]}
        http.headers["authorization"] = "Bearer t"
        other = http.post("/api/v1/steps", json=STEP, headers=KEY)
        assert other.json() != first.json()  # another token's keys are its own
    app = create_app(
        writer=api.writer,
        spool_folder=api.folder,
        token=headers["authorization"].removeprefix("Bearer "),
        warehouse=warehouse,
        memory=memory,
    )
    with TestClient(app, base_url="http://127.0.0.1") as http:
        again = http.post("/api/v1/steps", json=STEP, headers=headers)
    assert again.content == first.content and again.headers["idempotency-replayed"] == "true"
    memory.close()
