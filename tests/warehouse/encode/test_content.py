"""What a content hash depends on, and that it does not depend on the code of the day."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.sdk.records import Step
from stepwell.warehouse._encode.content import Hashed, content_hash, hashed, hashes_of
from stepwell.warehouse._restore.whole import restore

GIVEN: dict[str, Any] = {
    "prompt_length": 2,
    "tokens": np.array([1, 2, 3], np.int32),
    "logprobs": np.array([-0.5], np.float32),
    "messages": [b'{"role":"user"}', b"{}"],
    "response": b'{"role":"assistant"}',
    "tools": b"null",
}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def blake(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def sized(part: bytes) -> bytes:
    return struct.pack("<q", len(part)) + part


def test_the_value_stays() -> None:
    """Datasets of earlier versions hold it: another layout would make them all look changed."""
    pieces = [
        struct.pack("<qq", 2, 2),
        blake(struct.pack("<2i", 1, 2)),
        blake(*map(sized, GIVEN["messages"])),
        blake(b"null"),
        sized(struct.pack("<i", 3)),
        sized(struct.pack("<f", -0.5)),
        sized(GIVEN["response"]),
    ]
    assert content_hash(**GIVEN) == blake(*pieces).hex() == "674eef19fdbe78f977365e9380ee2f83"


def known(prompt: Hashed) -> tuple[bytes, int, bytes, int]:
    return prompt.ids.digest(), prompt.id_count, prompt.messages.digest(), prompt.message_count


@pytest.mark.parametrize(
    ("same_ids", "same_messages"),
    [(3, 2), (4, 3), (2, 1), (0, 0), (3, 0), (0, 2)],
    ids=["its prompt", "its answer, too", "less than its prompt", "nothing", "only ids", "only messages"],
)
def test_a_prompt_is_hashed_from_where_it_goes_on(same_ids: int, same_messages: int) -> None:
    before = hashed(np.array([7, 8, 9], np.int32), [b"{}", b"[1]"])
    at_first = known(before)
    # What is not said to be the same is another: it has to be looked at.
    ids = np.array([*[7, 8, 9, 10][:same_ids], 40, 41, 42, 43], np.int32)
    messages = [*[b"{}", b"[1]", b"[2]"][:same_messages], b"[40]", b"[41]", b"[42]"]
    more = hashed(ids, messages, before, same_ids, same_messages)
    assert known(more) == known(hashed(ids, messages))
    assert known(before) == at_first, "others may go on from it as well"


def test_a_prompt_without_ids_or_messages_can_be_gone_on_from() -> None:
    ids, messages = np.array([1, 2], np.int32), [b"{}"]
    for before in (hashed(None, messages), hashed(ids, [])):
        for same in (0, 1):
            more = hashed(ids, messages, before, 2 if before.id_count else 0, same)
            assert known(more) == known(hashed(ids, messages))


def test_what_is_known_is_not_looked_at_again() -> None:
    before = hashed(np.array([1, 2], np.int32), [b"{}", b"{}"])
    more = hashed(np.array([0, 0, 3], np.int32), [b"", b"", b"[]"], before, 2, 2)
    assert known(more) == known(hashed(np.array([1, 2, 3], np.int32), [b"{}", b"{}", b"[]"]))


def test_every_part_counts() -> None:
    changed: list[dict[str, Any]] = [
        {"prompt_length": 1},
        {"tokens": np.array([1, 2, 4], np.int32)},
        {"tokens": None},
        {"logprobs": np.array([-0.25], np.float32)},
        {"logprobs": None},
        {"messages": [b'{"role":"user"}{}']},
        {"messages": [b'{"role":"user"}', b"{}", b""]},
        {"messages": []},
        {"response": b""},
        {"tools": b"[]"},
        {"messages": [b'{"role":"user"}'], "response": b'{}{"role":"assistant"}'},
    ]
    hashes = {content_hash(**{**GIVEN, **change}) for change in changed}
    assert len(hashes | {content_hash(**GIVEN)}) == len(changed) + 1


def test_layout_does_not_count() -> None:
    wide = {**GIVEN, "tokens": np.array([1, 2, 3], ">i8"), "logprobs": np.array([-0.5], np.float64)}
    assert content_hash(**wide) == content_hash(**GIVEN)


def test_the_same_from_what_is_stored(linked: Callable[[list[Step]], pa.Table]) -> None:
    steps = [
        Step(
            step_id="text",
            messages=[{"role": "user", "content": 'ü"\\ \u2028'}],
            response=says("a"),
            tools=[{"b": 1, "a": 1.0}],
        ),
        Step(step_id="tokens", prompt_ids=[1], response_ids=[], logprobs=[]),
        Step(step_id="empty", prompt_ids=[1], response_ids=[2], messages=[], response={"role": "assistant"}, tools=[]),
    ]
    rows = linked(steps)
    assert hashes_of(restore(rows)) == rows["content_hash"].to_pylist()
    assert len(set(rows["content_hash"].to_pylist())) == 3


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_hashing_many_goes_on_from_the_row_before(data: st.DataObject) -> None:
    """Rows that begin with the one before in ids or messages, only almost, or not at all, and what has no ids or no messages."""
    said = st.lists(st.sampled_from(['{"role":"user"}', '{"n":1}', '{"n":12}', '{"t":"]"}']), max_size=3)
    ids = st.lists(st.integers(0, 2), max_size=3)
    prompt, messages, rows = list[int](), list[str](), list[dict[str, Any]]()
    for _ in range(data.draw(st.integers(1, 6))):
        more, kept = data.draw(ids), data.draw(st.integers(0, len(prompt)))
        prompt = prompt[: len(prompt) if data.draw(st.booleans()) else kept] + more
        messages = messages[: len(messages) if data.draw(st.booleans()) else 0] + data.draw(said)
        without = data.draw(st.booleans())
        row = {"prompt_ids": None if without else prompt, "response_ids": None if without else [7], "logprobs": None}
        text = None if data.draw(st.integers(0, 4)) == 0 else f"[{','.join(messages)}]"
        rows.append({**row, "messages": text, "response": "{}", "tools": None})
    kinds = {
        "prompt_ids": pa.list_(pa.int32()),
        "response_ids": pa.list_(pa.int32()),
        "logprobs": pa.list_(pa.float32()),
    }
    fields = [(name, kinds.get(name, pa.string())) for name in rows[0]]
    table = pa.Table.from_pylist(rows, schema=pa.schema(fields))
    alone = []
    for row in rows:
        whole = None if row["prompt_ids"] is None else np.array([*row["prompt_ids"], 7], np.int32)
        parts = [orjson.dumps(message) for message in orjson.loads(str(row["messages"] or "[]"))]
        alone.append(content_hash(len(row["prompt_ids"] or []), whole, None, parts, b"{}", b"null"))
    assert hashes_of(table) == alone
