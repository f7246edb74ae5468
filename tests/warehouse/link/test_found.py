"""What ingest finds out about stored steps, as events and as what they resolve to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from stepwell.warehouse import Warehouse
from stepwell.warehouse._link.attempts import Finding
from stepwell.warehouse._parse.events import Origin
from stepwell.warehouse._parse.warmed import Warmed, context_row, warmed_from

ORIGIN = Origin("p", 7, datetime(2026, 1, 2, tzinfo=UTC))


@pytest.mark.parametrize("tools", [b"null", b'[{"name":"f"}]'])
@pytest.mark.parametrize("messages", [(), (b'{"role":"user","content":[]}', b'{"role":"user","content":["\xc3\xbc"]}')])
def test_a_context_comes_back_as_it_was(tools: bytes, messages: tuple[bytes, ...]) -> None:
    for trajectory, continues in ((None, None), ("t", "response:r0")):
        warmed = Warmed("r1", trajectory, messages, tools, continues)
        row = context_row(warmed, "e", ORIGIN)
        orjson.loads(row["payload"])
        assert warmed_from(row["target_id"], row["payload"]) == warmed
        assert (row["event_id"], row["producer"], row["sequence"]) == ("e", "p", 7)


def test_the_same_finding_is_the_same_event() -> None:
    assert Finding("attempt.used", "a", "b").event_id == Finding("attempt.used", "a", "c").event_id
    assert Finding("attempt.used", "a", "b").event_id != Finding("attempt.superseded", "a", "b").event_id


@pytest.fixture
def failed_and_tried_again(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Warehouse:
    for id_ in ("x", "y"):
        feed.request([{"role": "user", "content": "q"}], "t", id=id_)
        feed.answer(id_, b'{"error":{}}', 503) if id_ == "x" else None
    feed.exchange([{"role": "user", "content": "q"}], "a", "t", id="z")
    ingest()
    return warehouse


def test_steps_read_whole_say_what_the_view_says(failed_and_tried_again: Warehouse) -> None:
    columns = ["step_id", "parent_id", "trainable", "untrainable_reason"]
    shown = failed_and_tried_again.query(f"SELECT {', '.join(columns)} FROM steps ORDER BY step_id").to_pylist()
    read = failed_and_tried_again.steps(columns=columns).read_all().sort_by("step_id").to_pylist()
    assert read == shown
    assert [row["trainable"] for row in read] == [False, True]
    assert read[0]["untrainable_reason"] == "the client used another attempt of this call: z.0"
