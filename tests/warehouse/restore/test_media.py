"""What conversations show beside text: which images there were, told without their data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import orjson
import pytest

from stepwell.sdk.records import Step
from stepwell.warehouse import Warehouse
from stepwell.warehouse._restore.media import media_of, without_data

CAT, DOG = (bytes([kind]) * 4000 for kind in (1, 2))
ASK = {"role": "user", "content": "which?"}


def named(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def shown(data: bytes) -> dict[str, Any]:
    """As OpenAI's clients send an image."""
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return {
        "role": "user",
        "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}],
    }


def link(url: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


@pytest.fixture
def told(warehouse: Warehouse, put: Callable[[Sequence[Step]], None]) -> Warehouse:
    answer = {"role": "assistant", "content": "a cat"}
    after = [shown(CAT), answer]
    prompts: dict[str, Any] = {
        "one": [shown(CAT)],
        "two": [*after, shown(b"small"), ASK],
        "linked": [*after, link("https://example.test/cat.png")],
        "words": [ASK],
        "ids only": None,
    }
    put(
        [
            Step(step_id=name, trajectory_id="t", messages=said, response=answer, prompt_ids=[1, 2], response_ids=[3])
            for name, said in prompts.items()
        ]
    )
    return warehouse


def restored(warehouse: Warehouse, *columns: str) -> dict[str, Any]:
    rows = warehouse.query("SELECT step_id, trajectory_id FROM steps")
    found = warehouse.restored(rows, ["step_id", *columns]).read_all()
    return {row.pop("step_id"): row for row in found.to_pylist()}


def test_the_media_of_prompt_and_answer_in_order(told: Warehouse) -> None:
    assert {name: row["media"] for name, row in restored(told, "media").items()} == {
        "one": [named(CAT)],
        "two": [named(CAT), named(b"small")],
        "linked": [named(CAT), None],
        "words": [],
        "ids only": None,
    }


def test_media_that_are_all_stored_apart(warehouse: Warehouse, put: Callable[[Sequence[Step]], None]) -> None:
    put(
        [
            Step(
                step_id="one",
                trajectory_id="t",
                messages=[shown(CAT), shown(DOG)],
                response={"role": "assistant", "content": "two"},
            )
        ]
    )
    assert restored(warehouse, "media") == {"one": {"media": [named(CAT), named(DOG)]}}


def test_messages_without_the_data_of_what_is_stored_apart(told: Warehouse) -> None:
    whole, plain = restored(told, "messages"), restored(told, "plain_messages")
    for name, row in whole.items():
        bare = plain[name]["plain_messages"]
        if row["messages"] is None:
            assert bare is None
            continue
        said = orjson.loads(row["messages"])
        for message in said:
            for part in message["content"]:
                if part.get("hash") == named(CAT):
                    del part["extra"]
        assert orjson.loads(bare) == said
    assert len(plain["two"]["plain_messages"]) < 1000 < len(whole["two"]["messages"])


def test_media_beside_ids_and_whole_messages(told: Warehouse) -> None:
    row = restored(told, "prompt_ids", "messages", "media")["two"]
    assert (row["prompt_ids"], row["media"]) == ([1, 2], [named(CAT), named(b"small")])
    assert base64.b64encode(CAT).decode() in row["messages"]


def test_they_are_no_columns_of_the_view(told: Warehouse) -> None:
    assert not {"media", "plain_messages"} & set(told.query("SELECT * FROM steps").column_names)
    assert not {"media", "plain_messages"} & set(told.steps().schema.names)


def message(*parts: dict[str, Any]) -> bytes:
    return orjson.dumps({"role": "user", "content": list(parts)})


def test_parts_of_every_kind() -> None:
    image, unknown = {"type": "image", "hash": "sha256:i"}, {"type": "other", "extra": {"clip": "QUJD"}}
    elsewhere = {"type": "other", "extra": {"clip": {"url": "https://example.test/clip"}}}
    result = {"type": "tool_result", "id": "c", "content": [{"type": "text", "text": '"type":"image"'}, image]}
    said = {"type": "tool_call", "id": "c", "name": "look", "arguments": '{"type":"image"}'}
    audio, file = {"type": "audio", "hash": "sha256:a"}, {"type": "file"}
    (found,) = media_of([(message(said), message(result, audio), message(file, unknown, elsewhere))])
    assert found[:3] == ["sha256:i", "sha256:a", None] and found[4:] == [None]
    assert isinstance(found[3], str) and found[3].startswith("other:")
    again, another = media_of([(message(unknown),), (message({**unknown, "extra": {"clip": "QUJE"}}),)])
    assert again == [found[3]] != another


def test_few_payloads_are_in_memory_with_their_data() -> None:
    result = {
        "type": "tool_result",
        "id": "c",
        "content": [{"type": "image", "hash": "h", "extra": {"data": "A" * 99}}],
    }
    tools = [{"name": "t", "schema": {"type": "image"}}]
    stored = {**{f"{n}": orjson.dumps(result) for n in range(200)}, "tools": orjson.dumps(tools), "text": b'{"a":1}'}
    asked: list[int] = []

    def payloads(ids: Collection[str]) -> dict[str, bytes]:
        asked.append(len(ids))
        return {id_: stored[id_] for id_ in ids}

    found = without_data(payloads)(stored.keys())
    assert max(asked) <= 64 and sum(asked) == len(stored) == len(found)
    assert orjson.loads(found["0"])["content"] == [{"type": "image", "hash": "h"}]
    assert orjson.loads(found["tools"]) == tools and found["text"] == b'{"a":1}'
