"""Large parts are taken out, put once, and put back."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.warehouse._encode.payloads import (
    THRESHOLD,
    Payload,
    PayloadMemory,
    outsourced,
    outsourced_tools,
    resolved,
    resolved_tools,
)
from stepwell.warehouse._tables.schema import PAYLOADS

DAY = 24 * 3600.0
IMAGE = {"type": "image", "hash": "sha256:00", "extra": {"url": "data:image/png;base64," + "A" * 5000}}


def message(*parts: Any) -> bytes:
    return orjson.dumps({"role": "user", "content": list(parts), "extra": {"name": "n"}})


def text(length: int) -> dict[str, str]:
    return {"type": "text", "text": "ü" * (length // 2)}


PARTS = st.lists(
    st.sampled_from([text(10), text(1900), text(2500), IMAGE, {"type": "text", "text": '"@0123'}]), max_size=5
)


@given(PARTS)
def test_what_is_taken_out_is_put_back_byte_by_byte(parts: list[Any]) -> None:
    whole = message(*parts)
    stored, payloads = outsourced(whole)
    found = {payload.payload_id: payload.data for payload in payloads}
    assert resolved(orjson.loads(stored), found) == whole.decode()
    large = [orjson.dumps(part) for part in parts if len(orjson.dumps(part)) > THRESHOLD]
    assert [payload.data for payload in payloads] == large
    assert len(stored) < THRESHOLD * len(parts) + 100


def test_a_part_is_named_by_its_bytes() -> None:
    stored, [payload] = outsourced(message(IMAGE, text(10)))
    assert payload == Payload(hashlib.blake2b(orjson.dumps(IMAGE), digest_size=16).hexdigest(), orjson.dumps(IMAGE))
    assert orjson.loads(stored)["content"] == [f"@{payload.payload_id}", text(10)]


def test_many_small_parts_stay() -> None:
    whole = message(*[text(200)] * 30)
    assert outsourced(whole) == (whole, [])
    assert outsourced(b"") == (b"", [])


def test_tools() -> None:
    small, large = b'[{"name":"t"}]', orjson.dumps([{"name": "t" * 3000}])
    assert outsourced_tools(small) == (small, [])
    stored, [payload] = outsourced_tools(large)
    assert stored.decode() == f'"@{payload.payload_id}"'
    for given_, stored_ in ((small, small), (large, stored), (b"null", b"null")):
        assert resolved_tools(stored_.decode(), {payload.payload_id: payload.data}) == given_.decode()


def test_what_is_missing_is_named() -> None:
    stored, [payload] = outsourced(message(IMAGE))
    with pytest.raises(KeyError, match=payload.payload_id):
        resolved(orjson.loads(stored), {})


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def test_put_once_and_again_after_three_days() -> None:
    clock = Clock()
    memory = PayloadMemory(clock)
    one = (Payload("a" * 32, b"x"),)
    rows = memory.rows([(one, "p", 3), (one, "q", 1), ((Payload("b" * 32, b"yy"),), "q", 2)])
    assert rows.schema.equals(PAYLOADS.schema, check_metadata=True)
    assert [
        (row["payload_id"][0], row["size"], row["data"], row["producer"], row["sequence"]) for row in rows.to_pylist()
    ] == [
        ("a", 1, b"x", "p", 3),
        ("b", 2, b"yy", "q", 2),
    ]
    assert rows["created_at"].to_pylist()[0].timestamp() == clock.now
    clock.now += 2.9 * DAY
    assert memory.rows([(one, "p", 4)]).num_rows == 0
    clock.now += 0.2 * DAY
    assert memory.rows([(one, "p", 5), (one, "p", 6)])["sequence"].to_pylist() == [5]
    memory.forget()
    assert memory.rows([(one, "p", 7)]).num_rows == 1


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.warehouse._encode.payloads._REMEMBERED", 3)
    memory = PayloadMemory(Clock())
    assert [memory.lacks(id_) for id_ in "abcabcdda"] == [True] * 3 + [False] * 3 + [True, False, True]
