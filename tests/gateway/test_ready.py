from __future__ import annotations

import threading
from typing import Any

import pytest

from stepwell.gateway import GatewayConfig, _ready


def test_ready(api: Any) -> None:
    del api.http.headers["authorization"]
    answer = api.get("/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "spool": "ok", "store": "ok"})


def test_a_store_that_is_away(api: Any, warehouse: Any) -> None:
    warehouse.broken = True
    answer = api.get("/ready")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json() == {"status": "not ready", "spool": "ok", "store": "unreachable"}
    assert api.get("/health").status_code == 200
    assert api.post("/steps", {"prompt_ids": [1], "response_ids": [2]}).status_code == 200  # they need no store


def test_a_store_that_does_not_answer(api: Any, warehouse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ready, "_PATIENCE", 0.1)
    go_on = threading.Event()
    monkeypatch.setattr(warehouse, "marks", lambda: go_on.wait(1) and {})
    assert api.get("/ready").json()["store"] == "slow"
    go_on.set()


def test_a_spool_that_is_full_or_closed(api_of: Any) -> None:
    api = api_of(GatewayConfig(max_spool_bytes=1 << 20), max_spool_bytes=1 << 20)
    filling = {"prompt_ids": [1], "response_ids": [2], "metadata": {"x": "y" * 1_040_000}}
    assert api.post("/steps", filling).status_code == 200
    assert api.get("/ready").json()["spool"] == "full"
    assert api.post("/steps", filling).status_code == 503
    other = api_of()
    other.writer.close()
    assert (other.get("/ready").status_code, other.get("/ready").json()["spool"]) == (503, "closed")
