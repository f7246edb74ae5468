"""An agent without an SDK behind the proxy: curl."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from stepwell.testing import Reply

from .conftest import DEADLINE, Site, assert_same, say

TEXT = "Grüße 👋🏽 an alle — 数据仓库."
URL = "https://api.openai.com/v1/chat/completions"


def run(site: Site, command: list[str]) -> str:
    done = subprocess.run(command, env=site.environment(), capture_output=True, check=True, timeout=DEADLINE)
    return done.stdout.decode()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize("http", ["--http1.1", "--http2"])
@pytest.mark.parametrize("stream", [False, True])
def test_curl(site: Site, http: str, stream: bool) -> None:
    site.script(Reply(TEXT))
    body = json.dumps({"model": "m", "messages": say("hallo"), "stream": stream})
    said = run(site, ["curl", "-sS", "--fail", "-N", http, URL, "-H", "content-type: application/json", "-d", body])
    (call,), (row,) = site.calls, site.rows(1)
    assert said.encode() == call.sent
    assert_same(row, call)
