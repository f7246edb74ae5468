"""System, where the gateway was told how the whole installation is set: routes, and secrets that stay hidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.dashboard.house import House, open_house
from tests.dashboard.test_system import table
from tests.dashboard.visit import Visit

SECRET = "sk-nobody-may-read-this"
SETTINGS = {
    "gateway": {"port": 8787, "webhooks": {"shop": SECRET}},
    "proxy": {
        "hosts": ["api.example.com"],
        "routes": [
            {
                "host": "api.example.com",
                "path": "/v1",
                "model": "qwen-*",
                "upstream": "http://127.0.0.1:8000",
                "engine": "vllm",
                "ca": None,
            },
            {"host": "*.example.org", "path": "", "model": None, "upstream": None, "engine": None, "ca": None},
        ],
    },
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path, settings=SETTINGS) as opened:
        yield opened


def test_routes_in_the_order_in_which_they_are_tried(visit: Visit) -> None:
    visit.go("#/system/routes")
    assert table(visit, "Routes") == [
        ["1", "api.example.com", "/v1", "qwen-*", "http://127.0.0.1:8000", "vllm"],
        ["2", "*.example.org", "every path", "every model", "the host itself", "text only"],
    ]
    visit.check_accessible()
    visit.picture("system-routes")


def test_what_may_be_secret_is_not_in_the_page(visit: Visit) -> None:
    visit.go("#/system/settings")
    shown = dict(table(visit, "Settings"))
    assert shown["gateway.webhooks.shop"] == "not shown" and shown["gateway.port"] == "8787"
    assert shown["proxy.hosts"] == '["api.example.com"]'
    assert SECRET not in visit.page.content()
