"""Steps whose base goes: stored anew, whole, and the same to whoever reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.warehouse.forget.scene import forget, user

from stepwell.warehouse import Warehouse
from stepwell.warehouse._encode import payloads
from stepwell.warehouse._verify.verify import verify

COLUMNS = ["step_id", "messages", "tools", "response", "content_hash"]


def test_large_parts_that_are_in_place_go_to_where_new_ones_are(
    data: Path, feed: Any, ingest: Callable[[], int], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a warehouse that was migrated: schema 1 stored nothing apart."""
    tools = [{"type": "function", "function": {"name": "f", "description": "d" * 3000}}]
    with monkeypatch.context() as patch:
        patch.setattr(payloads, "THRESHOLD", 1 << 30)
        talk = [user("x" * 5000)]
        steps = []
        for turn in range(3):
            steps.append(feed.exchange(talk, f"{turn}" * 4000, "t", tools=tools))
            talk = [*talk, {"role": "assistant", "content": f"{turn}" * 4000}, user("and?")]
        ingest()
    warehouse.refresh()
    stored = warehouse.tables["steps"].dataset.to_table(["base_id"], "ledger IS NULL")["base_id"].to_pylist()
    assert stored == [None, *steps[:2]], "or this tests nothing"
    assert warehouse.tables["payloads"].dataset.count_rows("ledger IS NULL") == 0
    before = warehouse.whole(steps, COLUMNS)
    done = forget(data, where=f"step_id = '{steps[0]}'")
    assert (done.rebased, done.unreadable) == (1, {})
    assert verify(warehouse.uri, {}, deep=True).findings == []
    assert Warehouse.open(warehouse.uri).whole(steps[1:], COLUMNS).to_pylist() == before.to_pylist()[1:]
    assert warehouse.query("SELECT count(*) n FROM steps")["n"].to_pylist() == [2]
