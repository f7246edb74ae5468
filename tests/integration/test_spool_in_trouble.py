"""The proxy's spool is locked by somebody else (a backup, somebody who looks into it), or damaged: calls go on, and are recorded."""

from __future__ import annotations

import os
import sqlite3
import ssl
from contextlib import closing
from pathlib import Path

import httpx2

from stepwell.proxy import trust_bundle
from stepwell.spool import Entry, Spool, SpoolReader
from stepwell.testing import Reply

from .conftest import ENGINE, Site, _config, _running_proxy, _settings, assert_same, eventually, say

CALLS = 3


def test_a_locked_spool_keeps_no_call_waiting(over: Site) -> None:
    """All calls end while the spool is locked: none of them waits for the disk."""
    over.script(Reply(content="Grüße 👋"))
    client = over.openai(over.name)
    lost = over.world.health()["lost"]
    with closing(sqlite3.connect(over.world.data / "spool" / "proxy.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(CALLS):
            answer = client.chat.completions.create(model="m", messages=say("hi"))
            assert answer.choices[0].message.content == "Grüße 👋"
        now = over.world.health()
        assert now["pending"] > 0, "what the disk does not take waits in memory"
        other.execute("ROLLBACK")
    rows = over.rows(CALLS)
    for row, call in zip(rows, over.calls, strict=True):
        assert_same(row, call)
    assert over.world.health()["lost"] == lost


def test_a_stream_through_a_proxy_whose_spool_is_locked(over: Site) -> None:
    over.script(Reply(content="Grüße 👋"))
    client = over.openai(over.name)
    with closing(sqlite3.connect(over.world.data / "spool" / "proxy.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        stream = client.chat.completions.create(model="m", messages=say("hi"), stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == "Grüße 👋"
        eventually(lambda: over.world.health()["in_flight"] == 0, "the call has ended for the proxy, too")
        other.execute("ROLLBACK")
    assert_same(over.rows(1)[0], over.calls[0])


def test_a_proxy_starts_beside_its_damaged_spool(site: Site, tmp_path: Path) -> None:
    """Without it agents would have no way to their model."""
    data, home, world = tmp_path / "data", tmp_path / "home", site.world
    with Spool(data / "spool" / "proxy.db") as spool:
        spool.append([Entry(f"e{number}", "k", body=bytes(2000)) for number in range(50)])
    with (data / "spool" / "proxy.db").open("r+b") as file:
        file.seek(2 * 16384)
        file.write(os.urandom(5 * 16384))
    site.script(Reply(content="Grüße 👋"))
    log = tmp_path / "proxy.log"
    with _running_proxy(_settings(_config(world.server), data, home), log) as (_, ports):
        token = (home / "token").read_text().strip()
        proxy = f"http://me:{token}@127.0.0.1:{ports['run_port']}"
        trust = ssl.create_default_context(cafile=trust_bundle(home, environ={}))
        with httpx2.Client(proxy=proxy, verify=trust, trust_env=False) as client:
            answer = client.post(f"{ENGINE}/chat/completions", json={"model": "m", "messages": say("hi")})
            assert answer.json()["choices"][0]["message"]["content"] == "Grüße 👋"
    assert "is damaged" in log.read_text()
    with SpoolReader(data / "spool" / "proxy.db") as reader:
        assert [record.kind for record in reader.read(0)] == ["exchange.request", "exchange.response"]
