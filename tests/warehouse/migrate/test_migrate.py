"""From schema 1 to 2: the same steps, datasets and versions; interrupted anywhere; refused where it would do harm."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import orjson
import pyarrow as pa
import pytest
from tests.stores import Place

from stepwell.errors import StoreError
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._encode.content import content_hash
from stepwell.warehouse._migrate.migrate import migrate
from stepwell.warehouse._migrate.rows import COLUMNS, fingerprint
from stepwell.warehouse._store.lease import Lease
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._verify.verify import verify

TIME = pa.timestamp("us", tz="UTC")
IDS, FLOATS = pa.list_(pa.int32()), pa.list_(pa.float32())
TAIL = {"producer": pa.string(), "sequence": pa.int64(), "commit": pa.int64(), "ledger": pa.string()}


def texts(names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names.split(), pa.string())


# Schema 1, as it was, with its columns in the order in which they were.
SCHEMA_1: dict[str, dict[str, pa.DataType]] = {
    "steps": {
        **texts("step_id call_id trajectory_id prompt_id group_id split parent_id"),
        "turn": pa.int32(),
        **texts("conversation_key prompt_key continues base_id"),
        **dict.fromkeys(("base_depth", "prompt_length", "prompt_shared"), pa.int32()),
        "prompt_suffix": IDS,
        "messages_shared": pa.int32(),
        **texts("messages_suffix tools"),
        "response_ids": IDS,
        "logprobs": FLOATS,
        **texts("response finish_reason status"),
        "trainable": pa.bool_(),
        **texts("untrainable_reason content_hash logprobs_mode source fingerprint policy"),
        "policy_version": pa.int64(),
        **texts("policy_label model model_asked response_id dialect engine sampling usage metadata extra"),
        **dict.fromkeys(("started_at", "first_byte_at", "first_token_at", "finished_at"), TIME),
    },
    "events": {
        **texts("event_id kind target_kind target_id name author"),
        "value": pa.float64(),
        **texts("text payload"),
        "created_at": TIME,
    },
    "exchanges": {
        **texts("exchange_id reason dialect trajectory_id request_head"),
        "request_body": pa.large_binary(),
        "response_head": pa.string(),
        "response_body": pa.large_binary(),
        "created_at": TIME,
    },
    "commits": {**texts("commit_id marks"), "created_at": TIME},
    "datasets": {
        **texts("dataset_id name"),
        "version": pa.int32(),
        **texts("filter note"),
        **dict.fromkeys(("steps", "at_commit"), pa.int64()),
        "fingerprint": pa.string(),
        "created_at": TIME,
    },
    "dataset_rows": {
        **texts("row_id dataset_id"),
        "position": pa.int64(),
        **texts("step_id trajectory_id prompt_id group_id split"),
        "policy_version": pa.int64(),
        "content_hash": pa.string(),
        **dict.fromkeys(("step_reward", "trajectory_reward"), pa.float64()),
    },
}


def put(place: Place, name: str, rows: list[dict[str, Any]], marks: dict[str, int]) -> None:
    """A table of schema 1, with its ledger row in the middle."""
    fields = SCHEMA_1[name] | TAIL
    key = next(iter(fields))
    ledger = {key: "__ledger__", "ledger": orjson.dumps({"marks": marks}).decode()}
    schema = pa.schema(
        [pa.field(column, kind, nullable=column != key) for column, kind in fields.items()],
        metadata={"stepwell:schema": "1"},
    )
    table = pa.Table.from_pylist([*rows[:1], ledger, *rows[1:]], schema=schema)
    lance.write_dataset(
        table,
        f"{place.uri}/{name}.lance",
        storage_options=dict(place.options),
        data_storage_version="2.2",
        enable_stable_row_ids=True,
        enable_v2_manifest_paths=True,
    )


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


TOOLS = '[{"name":"f"}]'
ASKED = [
    message("user", "q"),
    message("assistant", "a0"),
    message("user", "more"),
    message("assistant", "a1"),
    message("user", "end"),
]
PROMPT = list(range(100, 140))
STEPS: list[dict[str, Any]] = [
    # A key frame; an exact continuation; one that differs from its parent inside its response; one from an interrupted round.
    {"messages": ASKED[:1], "response": ASKED[1], "prompt": PROMPT, "ids": [1, 2], "shared": (0, 0), "tools": TOOLS},
    {
        "messages": ASKED[:3],
        "response": ASKED[3],
        "prompt": [*PROMPT, 1, 2, 7],
        "ids": [3],
        "shared": (42, 2),
        "tools": TOOLS,
    },
    {
        "messages": ASKED,
        "response": message("assistant", "a2"),
        "prompt": [*PROMPT, 1, 2, 7, 9],
        "ids": [4],
        "shared": (43, 4),
        "tools": "null",
    },
    {
        "messages": ASKED,
        "response": message("assistant", "a3"),
        "prompt": [5],
        "ids": [6],
        "shared": (0, 5),
        "tools": "null",
    },
]


def step(number: int) -> dict[str, Any]:
    """A row of `steps` as schema 1 stored it."""
    said = STEPS[number]
    tokens, before = said["shared"]
    base = f"s{number - 1}" if number else None
    parts = [orjson.dumps(one) for one in said["messages"]]
    whole = np.asarray([*said["prompt"], *said["ids"]], np.int32)
    logprobs = np.asarray([-0.25] * len(said["ids"]), np.float32)
    answer = orjson.dumps(said["response"])
    return {
        "step_id": f"s{number}",
        "trajectory_id": "t",
        "group_id": "g",
        "split": "train",
        "parent_id": base,
        "turn": number,
        "base_id": base,
        "base_depth": number,
        "prompt_length": len(said["prompt"]),
        "prompt_shared": tokens,
        "prompt_suffix": said["prompt"][tokens:],
        "messages_shared": before,
        "messages_suffix": orjson.dumps(said["messages"][before:]).decode(),
        "tools": said["tools"] if number == 0 or said["tools"] != STEPS[number - 1]["tools"] else None,
        "response_ids": said["ids"],
        "logprobs": logprobs.tolist(),
        "response": answer.decode(),
        "status": "ok",
        "trainable": True,
        "source": "engine",
        "content_hash": content_hash(len(said["prompt"]), whole, logprobs, parts, answer, said["tools"].encode()),
        "usage": '{"prompt_tokens":40,"completion_tokens":2}',
        "metadata": '{"tags":["red","blue"]}',
        "producer": "p",
        "sequence": 2 * number + 1,
        "commit": number + 1,
    }


def text_step() -> dict[str, Any]:
    hashed = content_hash(0, None, None, [orjson.dumps(ASKED[0])], b"", b"null")
    row = {
        "step_id": "text",
        "trajectory_id": "t2",
        "base_depth": 0,
        "prompt_shared": 0,
        "messages_shared": 0,
        "status": "error",
    }
    said = {
        "messages_suffix": orjson.dumps(ASKED[:1]).decode(),
        "content_hash": hashed,
        "trainable": False,
        "split": "train",
    }
    return {**row, **said, "producer": "q", "sequence": 1, "commit": 3}


def reward(number: int) -> dict[str, Any]:
    row = {
        "event_id": f"s{number}.reward",
        "kind": "reward",
        "target_kind": "step",
        "target_id": f"s{number}",
        "name": "reward",
    }
    return {**row, "value": 1.0 + number, "producer": "p", "sequence": 2 * number + 2, "commit": number + 1}


def old_warehouse(place: Place) -> None:
    """Three commits, a dataset of the first two steps, and a round that did not come to its end."""
    rows = [step(number) for number in range(4)]
    put(place, "steps", [*rows, text_step()], {"p": 7, "q": 1})
    put(place, "events", [reward(number) for number in range(3)], {"p": 6})
    exchange = {"exchange_id": "x", "reason": "odd", "request_body": b"?", "producer": "q", "sequence": 2, "commit": 3}
    put(place, "exchanges", [exchange], {"q": 2})
    at = datetime(2026, 1, 1, tzinfo=UTC)
    marks = [{"p": 2}, {"p": 4}, {"p": 6, "q": 2}]
    commits = [
        {"commit_id": str(number), "marks": orjson.dumps(reached).decode(), "created_at": at, "commit": number}
        for number, reached in enumerate(marks, 1)
    ]
    put(place, "commits", commits, marks[-1])
    selected = [
        {
            **dict.fromkeys(("prompt_id", "policy_version", "trajectory_reward")),
            **{name: rows[number][name] for name in ("step_id", "trajectory_id", "group_id", "split", "content_hash")},
            "step_reward": 1.0 + number,
        }
        for number in range(2)
    ]
    peer = {"trajectory_id": "t9", "prompt_id": None, "group_id": "g", "split": "train", "trajectory_reward": 0.5}
    hashed = fingerprint(pa.Table.from_pylist(selected), pa.Table.from_pylist([peer]))
    frozen = [
        {"row_id": f"d.{place}", "dataset_id": "d", "position": place, **row}
        for place, row in enumerate([*selected, peer])
    ]
    put(place, "dataset_rows", frozen, {})
    entry = {
        "dataset_id": "d",
        "name": "math",
        "version": 1,
        "filter": "turn < 2",
        "note": "mine",
        "steps": 2,
        "at_commit": 2,
    }
    put(place, "datasets", [{**entry, "fingerprint": hashed, "created_at": at}], {})


@pytest.fixture(params=["local", "s3"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    place = Place(str(tmp_path / "old")) if request.param == "local" else request.getfixturevalue("s3")
    old_warehouse(place)
    return place


@pytest.fixture
def old_folder(tmp_path: Path) -> Place:
    place = Place(str(tmp_path / "old"))
    old_warehouse(place)
    return place


ALL = ["exchanges", "steps", "events", "dataset_rows", "datasets", "commits"]


def check(place: Place) -> Warehouse:
    """Everything that was committed, as it was, and nothing else."""
    report = verify(place.uri, place.options, deep=True)
    assert report.findings == []
    assert (report.steps_read, report.commit, report.datasets) == (4, 3, 1)
    warehouse = place.open(create=False)
    assert warehouse.marks() == {"p": 6, "q": 2}
    steps = {row["step_id"]: row for row in warehouse.steps().read_all().to_pylist()}
    assert set(steps) == {"s0", "s1", "s2", "text"}
    for number in range(3):
        row, said = steps[f"s{number}"], STEPS[number]
        assert row["prompt_ids"] == said["prompt"]
        assert row["response_ids"] == said["ids"]
        assert orjson.loads(row["messages"]) == said["messages"]
        assert row["tools"] == (said["tools"] if said["tools"] != "null" else None)
        assert (row["tags"], row["input_tokens"], row["output_tokens"]) == (["red", "blue"], 40, 2)
        assert row["step_reward"] == 1.0 + number
    assert [(steps[f"s{n}"]["drift_at"], steps[f"s{n}"]["drift_cause"]) for n in range(3)] == [
        (None, None),
        (None, None),
        (43, "unknown"),
    ]
    assert steps["text"]["prompt_ids"] is None and orjson.loads(steps["text"]["messages"]) == ASKED[:1]
    counts = [warehouse.query("SELECT count(*) AS n FROM steps", at=at)["n"][0].as_py() for at in (0, 1, 2, 3)]
    assert counts == [0, 1, 2, 4]
    assert warehouse.query("SELECT exchange_id FROM quarantine")["exchange_id"].to_pylist() == ["x"]
    read = warehouse.datasets.read("math", 1)
    assert read["step_id"].to_pylist() == ["s0", "s1"]
    assert read["step_reward"].to_pylist() == [1.0, 2.0]
    assert set(COLUMNS) <= set(read.column_names)
    assert warehouse.datasets.peers("math", 1)["trajectory_reward"].to_pylist() == [0.5]
    assert warehouse.datasets.get("math").note == "mine"
    assert warehouse.version("math@1") == 2
    return warehouse


def test_everything_is_as_it_was(old: Place) -> None:
    with pytest.raises(StoreError, match="`stepwell migrate`"):
        old.open()
    done: list[str] = []
    assert migrate(old.uri, old.options, say=done.append) == ALL
    assert done == ALL
    check(old)
    assert migrate(old.uri, old.options) == []


def test_work_goes_on(old_folder: Place, feed: Any, spools: Path) -> None:
    migrate(old_folder.uri, {})
    warehouse = old_folder.open()
    feed.step(step_id="new", trajectory_id="t", prompt_ids=[*PROMPT, 1, 2, 7, 9, 4, 8], response_ids=[1], messages=None)
    worker = Ingest(warehouse, spools)
    while worker.run_once():
        pass
    assert verify(old_folder.uri, {}, deep=True).findings == []
    assert warehouse.query("SELECT count(*) AS n FROM steps")["n"].to_pylist() == [5]
    assert warehouse.version() == 4


def test_a_dry_run_changes_nothing(old_folder: Place) -> None:
    before = sorted(path.name for path in Path(old_folder.uri).rglob("*"))
    assert migrate(old_folder.uri, {}, dry_run=True) == ALL
    assert sorted(path.name for path in Path(old_folder.uri).rglob("*")) == before


@pytest.mark.parametrize("after", range(len(ALL)))
def test_interrupted_and_begun_again(old_folder: Place, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Between any two tables; and inside one, whose file is then written and never committed."""
    write, left = lance.write_dataset, [after]

    def stops(reader: Any, *places: Any, **more: Any) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return write(reader, *places, **more)

    with monkeypatch.context() as patch:
        patch.setattr(lance, "write_dataset", stops)
        with pytest.raises(KeyboardInterrupt):
            migrate(old_folder.uri, {})
    with pytest.raises(StoreError, match="`stepwell migrate`"):
        old_folder.open()
    assert migrate(old_folder.uri, {}) == ALL[after:]
    check(old_folder)


def test_not_while_an_ingest_holds_the_lease(old_folder: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease(objects_at(old_folder.uri, {}), "somebody", beat=0.0)
    assert lease.hold()
    monkeypatch.setattr("stepwell.warehouse._migrate.migrate.time.sleep", lambda _: lease.hold())
    with pytest.raises(StoreError, match=r"an ingest works on .*: stop it"):
        migrate(old_folder.uri, {}, patience=0.3)
    monkeypatch.setattr("stepwell.warehouse._migrate.migrate.time.sleep", lambda _: None)
    assert migrate(old_folder.uri, {}, patience=0.3) == ALL, "it went away without a word"


def test_not_under_an_ingest_of_schema_1(old_folder: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has no lease to be seen by commits while a table is written anew: what it committed is not lost."""
    write = lance.write_dataset

    def late(reader: Any, uri: str, **more: Any) -> Any:
        if uri.endswith("steps.lance"):
            batches = reader.read_all()
            put_more = pa.Table.from_pylist([step(3) | {"step_id": "late"}], schema=lance.dataset(uri).schema)
            write(put_more, uri, mode="append")
            reader = batches.to_reader()
        return write(reader, uri, **more)

    monkeypatch.setattr(lance, "write_dataset", late)
    with pytest.raises(StoreError, match=r"somebody committed to .*steps\.lance meanwhile"):
        migrate(old_folder.uri, {})
    steps = lance.dataset(f"{old_folder.uri}/steps.lance")
    assert steps.schema.metadata[b"stepwell:schema"] == b"1"
    assert steps.count_rows(filter="step_id = 'late'") == 1


def test_what_cannot_be_migrated(tmp_path: Path, old_folder: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="cannot open the table"):
        migrate(str(tmp_path / "nowhere"), {})
    steps = lance.dataset(f"{old_folder.uri}/steps.lance")
    steps.update_schema_metadata({"stepwell:schema": "9"}, replace=True)
    with pytest.raises(StoreError, match="has schema 9; 1 can be migrated to 2: upgrade Stepwell"):
        migrate(old_folder.uri, {})
    steps.update_schema_metadata({"other": "1"}, replace=True)
    with pytest.raises(StoreError, match="is it a table of Stepwell"):
        migrate(old_folder.uri, {})


def test_a_dataset_that_was_changed_before_stays_so(old_folder: Place) -> None:
    lance.dataset(f"{old_folder.uri}/dataset_rows.lance").update({"step_reward": "9.0"}, where="step_id = 's0'")
    migrate(old_folder.uri, {})
    with pytest.raises(StoreError, match="do not give its fingerprint"):
        old_folder.open().datasets.read("math", 1)


def test_an_empty_warehouse(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "old"))
    for name in SCHEMA_1:
        put(place, name, [], {})
    assert migrate(place.uri, {}) == ALL
    assert verify(place.uri, {}, deep=True).findings == []
    assert place.open().version() == 0
