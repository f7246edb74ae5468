from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from stepwell.exchange import Declared
from stepwell.proxy._policy import FILE, PolicyFile

from .conftest import REPLY, StartProxy, StartUpstream, plain_answer

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"


def write(folder: Path, value: Any) -> None:
    scratch = folder / "scratch"
    scratch.write_text(value if isinstance(value, str) else json.dumps(value))
    scratch.replace(folder / FILE)


def policy(version: int, **more: Any) -> dict[str, Any]:
    return {"name": "p", "version": version, "label": None, "at_ns": 1, **more}


def test_the_newest_counts_and_a_change_is_seen_at_once(tmp_path: Path) -> None:
    declared = PolicyFile(tmp_path)
    assert declared() is None
    write(tmp_path, {"format": 1, "declared": [policy(1), policy(2, label="L")]})
    assert declared() == declared() == Declared("p", 2, "L")
    write(tmp_path, {"format": 1, "declared": [policy(1), policy(2), policy(3)]})
    assert declared() == Declared("p", 3)
    (tmp_path / FILE).unlink()
    assert declared() is None


@pytest.mark.parametrize("value", ["{", "", [], {}, {"declared": []}, {"declared": [1]}, {"declared": [{"name": 1}]}])
def test_what_cannot_be_read_says_nothing(tmp_path: Path, value: Any) -> None:
    write(tmp_path, value)
    declared = PolicyFile(tmp_path)
    assert declared() is None
    write(tmp_path, {"declared": [policy(1)]})
    assert declared() == Declared("p", 1)


def test_a_call_carries_what_held_when_it_began_and_ended(
    start_proxy: StartProxy, start_upstream: StartUpstream
) -> None:
    proxy = start_proxy("localhost")

    def declaring(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        write(proxy.data, {"declared": [policy(1), policy(2)]})
        plain_answer(handler, body)

    upstream = start_upstream(declaring)
    write(proxy.data, {"declared": [policy(1)]})
    client = proxy.client()
    for _ in range(2):
        assert client.post(f"{upstream.url}{PATH}", json=ASK).json() == REPLY
    first, second = proxy.exchanges(upstream, 2)
    one, two = Declared("p", 1), Declared("p", 2)
    assert (first.declared, first.response.declared) == (one, two)
    assert (second.declared, second.response.declared) == (two, two)
