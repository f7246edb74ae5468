"""Real spools, a warehouse per test on a folder or on moto's object store, and short ways to say what an agent did."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from tests.stores import Endpoint, Place
from tests.stores.fixtures import faulty, localbucket_endpoint, moto_endpoint, store

from stepwell.exchange import Request, Response, request_entry, response_entry
from stepwell.sdk.records import Feedback, Step, Trajectory
from stepwell.spool import Entry, Record, Spool
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._encode.payloads import PayloadMemory
from stepwell.warehouse._ingest.rows import payload_rows, rows_of, step_rows
from stepwell.warehouse._link.link import Linked, Linker
from stepwell.warehouse._link.trajectories import Memories
from stepwell.warehouse._parse.records import Parsed, parse_record
from stepwell.warehouse._tables.schema import COMMITS

__all__ = ["faulty", "localbucket_endpoint", "moto_endpoint", "store"]


class Feed:
    """A producer: what it appends is durable in its spool when the call returns."""

    def __init__(self, folder: Path, name: str = "proxy") -> None:
        self.spool = Spool(folder / f"{name}.db")
        self.producer = self.spool.producer

    def close(self) -> None:
        self.spool.close()

    def put(self, *entries: Entry) -> int:
        """The number of the last entry."""
        return self.spool.append(entries)[-1]

    def request(self, messages: list[dict[str, Any]], trajectory: str | None = None, **more: Any) -> str:
        """A forwarded request without an answer yet; the exchange's id."""
        exchange = more.pop("id", None) or uuid.uuid4().hex
        body = orjson.dumps({"model": "m", "messages": messages, "temperature": 1.0, **more})
        url = "https://llm.example/v1/chat/completions"
        asked = Request("POST", url, [("content-type", "application/json")], body, time.time_ns())
        self.put(
            request_entry(
                exchange, asked, dialect="openai.chat", trajectory_id=trajectory, engine="vllm", added=["logprobs"]
            )
        )
        return exchange

    def answer(self, exchange: str, body: bytes, status: int = 200) -> str:
        """The answer to a request; the id of its first step."""
        got = Response(status, [("content-type", "application/json")], body, "complete", time.time_ns())
        self.put(response_entry(exchange, got))
        return f"{exchange}.0"

    def exchange(
        self,
        messages: list[dict[str, Any]],
        answer: str = "yes",
        trajectory: str | None = None,
        *,
        ids: tuple[list[int], list[int]] | None = None,
        **more: Any,
    ) -> str:
        """A whole call, answered as vLLM does; the step's id. `ids`: prompt and response, made up when left out."""
        prompt, response = ids if ids is not None else (list(range(20)), [7, 8, 9])
        exchange = self.request(messages, trajectory, **more)
        return self.answer(exchange, vllm_reply(exchange, prompt, [(answer, response)]))

    def step(self, **fields: Any) -> str:
        """A step submitted through the SDK; text only unless told otherwise."""
        given = {"messages": [user("q")], "response": "a"} if "prompt_ids" not in fields else {}
        step = Step.model_validate({**given, **fields})
        body = step.model_dump_json(exclude_none=True).encode()
        self.put(Entry(id=f"step.{step.step_id}", kind="step", body=body))
        return step.step_id

    def feedback(self, **fields: Any) -> str:
        said = Feedback.model_validate(fields)
        body = said.model_dump_json(exclude_none=True).encode()
        self.put(Entry(id=f"feedback.{said.feedback_id}", kind="feedback", body=body))
        return said.feedback_id

    def trajectory(self, trajectory_id: str, state: str = "open", **fields: Any) -> str:
        record = Trajectory.model_validate({"trajectory_id": trajectory_id, "state": state, **fields})
        entry = Entry(
            id=f"trajectory.{trajectory_id}.{state}.{uuid.uuid4().hex}",
            kind="trajectory",
            body=record.model_dump_json(exclude_none=True).encode(),
        )
        self.put(entry)
        return entry.id


def vllm_reply(exchange: str, prompt: list[int], choices: list[tuple[str, list[int]]]) -> bytes:
    """The body of a chat completion with token ids and logprobs, one choice per answer."""
    said = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
            "token_ids": ids,
            "logprobs": {"content": [{"token": "t", "logprob": -0.25 * (place + 1)} for place in range(len(ids))]},
        }
        for index, (text, ids) in enumerate(choices)
    ]
    usage = {"prompt_tokens": len(prompt), "completion_tokens": sum(len(ids) for _, ids in choices)}
    return orjson.dumps(
        {"id": f"chat-{exchange}", "model": "m", "prompt_token_ids": prompt, "usage": usage, "choices": said}
    )


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def spools(tmp_path: Path) -> Path:
    """The folder of spools."""
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


@pytest.fixture
def new_feed(spools: Path) -> Iterator[Callable[..., Feed]]:
    """Producers by name; closed at the end of the test."""
    made: list[Feed] = []

    def make(name: str = "proxy") -> Feed:
        made.append(Feed(spools, name))
        return made[-1]

    yield make
    for feed in made:
        feed.close()


@pytest.fixture
def feed(new_feed: Callable[..., Feed]) -> Feed:
    return new_feed()


@pytest.fixture(scope="session")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty warehouse, made once: copying it is ten times faster than making another."""
    root = tmp_path_factory.mktemp("template") / "warehouse"
    Warehouse.open(root)
    return root


@pytest.fixture
def local(_template: Path, tmp_path: Path) -> Place:
    """An empty warehouse in a folder."""
    root = tmp_path / "warehouse"
    shutil.copytree(_template, root)
    return Place(str(root))


@pytest.fixture
def s3(moto_endpoint: Endpoint) -> Place:
    """An empty bucket of its own."""
    return moto_endpoint.place()


@pytest.fixture(params=["local", "s3"])
def anywhere(request: pytest.FixtureRequest) -> Place:
    """Either kind of place: for what must hold on both. `-k "not s3"` leaves the slower one out."""
    place: Place = request.getfixturevalue(request.param)
    return place


@pytest.fixture
def warehouse(local: Place) -> Warehouse:
    return local.open()


@pytest.fixture
def ingest(warehouse: Warehouse, spools: Path) -> Callable[[], int]:
    """Take in all there is, with one long-lived ingest; how many records."""
    worker = Ingest(warehouse, spools)
    return lambda: drain(worker)


@pytest.fixture
def restarted(local: Place, spools: Path) -> Callable[[], int]:
    """Take in all there is with a new ingest, which remembers nothing."""
    return lambda: drain(Ingest(local.open(), spools))


def drain(worker: Ingest) -> int:
    total = 0
    while count := worker.run_once():
        total += count
    return total


@pytest.fixture(scope="session")
def drained() -> Callable[[Ingest], int]:
    """The function that lets an ingest take in all there is."""
    return drain


@pytest.fixture(scope="session")
def reply() -> Callable[..., bytes]:
    """The function that makes a chat completion's body."""
    return vllm_reply


@pytest.fixture(scope="session")
def placed() -> Callable[[Sequence[Step]], list[Linked]]:
    """Steps in the order they arrive, linked and encoded as ingest does."""

    def place(steps: Sequence[Step]) -> list[Linked]:
        parsed = Parsed()
        for number, step in enumerate(steps, 1):
            body = step.model_dump_json(exclude_none=True).encode()
            parse_record(Record(number, f"r{number}", "step", None, 0, b"", body), "p", lambda _: None, parsed)
        assert not parsed.quarantined
        linker = Linker(Memories(1 << 30))
        return [linker.place(draft) for draft in parsed.drafts]

    return place


@pytest.fixture(scope="session")
def linked(placed: Callable[[Sequence[Step]], list[Linked]]) -> Callable[[Sequence[Step]], pa.Table]:
    """The same as rows, as they are stored."""
    return lambda steps: step_rows(placed(steps))


@pytest.fixture
def put(warehouse: Warehouse, placed: Callable[[Sequence[Step]], list[Linked]]) -> Callable[[Sequence[Step]], None]:
    """Steps, and the payloads they need, straight into the tables as one commit of producer `p`. Once per test."""

    def store(steps: Sequence[Step]) -> None:
        made, tables, marks = placed(steps), warehouse.tables, {"p": len(steps)}
        tables["payloads"].commit(payload_rows(made, PayloadMemory()), marks)
        tables["steps"].commit(step_rows(made), marks)
        row = {"commit_id": "1.p", "commit": 1, "after": 0, "sequence": len(steps), "producer": "p"}
        tables["commits"].commit(rows_of(COMMITS, [row]), marks)

    return store
