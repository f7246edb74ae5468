from __future__ import annotations

from typing import Any

import pytest

from stepwell.gateway import GatewayConfig, _rate
from stepwell.gateway._rate import Buckets


def test_a_bucket_empties_and_fills() -> None:
    now = [0.0]
    buckets = Buckets(2.0, clock=lambda: now[0])
    assert [buckets.wait(b"a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert buckets.wait(b"b") == 0  # another client
    now[0] = 0.5
    assert [buckets.wait(b"a") for _ in range(2)] == [0, 0.5]
    now[0] = 1000
    assert [buckets.wait(b"a") for _ in range(5)] == [0, 0, 0, 0, 0.5]  # it never overflows


def test_less_than_one_a_second() -> None:
    now = [0.0]
    buckets = Buckets(0.1, clock=lambda: now[0])
    assert (buckets.wait(b"a"), buckets.wait(b"a")) == (0, 10)


def test_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rate, "_MOST", 2)
    buckets = Buckets(1.0, clock=lambda: 0.0)
    for client in (b"a", b"a", b"b", b"c"):
        buckets.wait(client)
    assert len(buckets._left) == 2 and b"a" not in buckets._left


def test_over_http(api_of: Any) -> None:
    api = api_of(GatewayConfig(rate=0.5))
    assert api.get("/version").status_code == 200
    answer = api.get("/version")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert answer.headers["content-type"] == "application/problem+json" and "gateway.rate" in answer.json()["detail"]


def test_off_on_loopback_and_on_elsewhere() -> None:
    assert GatewayConfig().rate_in_force == GatewayConfig(host="::1").rate_in_force == 0
    assert GatewayConfig(host="127.0.0.2").rate_in_force == 0
    assert GatewayConfig(host="0.0.0.0").rate_in_force == 100
    assert GatewayConfig(host="0.0.0.0", rate=0).rate_in_force == 0
    assert GatewayConfig(rate=7).rate_in_force == 7
