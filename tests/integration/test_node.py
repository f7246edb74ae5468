"""Node behind the proxy, with nothing configured but what `stepwell run` sets: its `fetch` and its `https`.

Most agents in JavaScript come down to one of the two. Each is asked for a stream that the server holds after its first part.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from stepwell.cli._agent_environment import agent_environment
from stepwell.cli._bypass import node_gap, node_version
from stepwell.proxy import ensure_ca
from stepwell.testing import Delivery, Reply

from .conftest import DEADLINE, Site, assert_same, say

TEXT = "Grüße 👋🏽 an alle — 数据仓库."
HOST, PATH = "api.openai.com", "/v1/chat/completions"
_FETCH = """
const [host, path, body] = process.argv.slice(1), headers = {"content-type": "application/json"};
const answer = await fetch(`https://${host}${path}`, {method: "POST", headers, body});
for await (const part of answer.body) process.stdout.write(part);
"""
_HTTPS = """
import https from "node:https";
const [host, path, body] = process.argv.slice(1), headers = {"content-type": "application/json"};
https.request({host, path, method: "POST", headers}, (answer) => answer.pipe(process.stdout)).end(body);
"""
each_way = pytest.mark.parametrize("code", [_FETCH, _HTTPS], ids=["fetch", "https"])


@functools.cache
def the_node() -> Path | str:
    """The Node of STEPWELL_TEST_NODE, else of PATH; or why there is none to test with."""
    found = os.environ.get("STEPWELL_TEST_NODE") or shutil.which("node")
    if not found:
        return "there is no node on PATH, and none in STEPWELL_TEST_NODE"
    version = node_version(Path(found))
    if version is None:
        return f"{found} does not say that it is a Node"
    if int(version.partition(".")[0]) < 24 or node_gap(version) is not None:
        return f"{found} is Node {version}: 24.5 or newer is needed, on PATH or in STEPWELL_TEST_NODE"
    return Path(found)


@pytest.fixture
def node() -> Path:
    found = the_node()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def command(node: Path, code: str, *, stream: bool) -> list[str]:
    body = json.dumps({"model": "m", "messages": say("hallo"), "stream": stream})
    return [str(node), "--input-type=module", "--eval", code, HOST, PATH, body]


def environment(site: Site) -> dict[str, str]:
    """As `stepwell run` sets it, where nobody had named certificates before: for Node that is the authority alone."""
    plain = {name: value for name, value in os.environ.items() if not re.fullmatch("(?i).*_proxy|node_.*|ssl_.*", name)}
    world = site.world
    return agent_environment(
        plain,
        proxy=world.proxy_url(site.name),
        gateway="",
        trajectory=site.name,
        certificate=ensure_ca(world.home),
        bundle=world.bundle,
    )


@each_way
def test_a_plain_answer(site: Site, node: Path, code: str) -> None:
    site.script(Reply(TEXT))
    done = subprocess.run(
        command(node, code, stream=False), env=environment(site), capture_output=True, check=True, timeout=DEADLINE
    )
    (call,), (row,) = site.calls, site.rows(1)
    assert (done.stdout, done.stderr) == (call.sent, b"")
    assert_same(row, call)


@each_way
def test_a_stream_comes_as_it_is_written(site: Site, node: Path, code: str) -> None:
    """The server goes on only when Node has printed the first part: were it held back, neither would ever get further."""
    go_on = threading.Event()
    site.script(Reply(TEXT, delivery=Delivery(hold=go_on, hold_after=1)))
    watchdog = threading.Timer(DEADLINE, go_on.set)
    watchdog.start()
    with subprocess.Popen(command(node, code, stream=True), env=environment(site), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1 << 16)
        early = not go_on.is_set()
        go_on.set()
        rest = process.stdout.read()
        watchdog.cancel()
    assert early and first.startswith(b"data: ")
    (call,), (row,) = site.calls, site.rows(1)
    assert first + rest == call.sent
    assert_same(row, call)
