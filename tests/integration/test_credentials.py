"""No transport credential is written anywhere, and none that was for the proxy reaches the upstream."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stepwell.exchange._encoding import decoded
from stepwell.spool import SpoolReader
from stepwell.testing import ChatCall, Delivery, Reply

from .conftest import ENGINE, PLAIN, Site, eventually, say

SECRET_HEADERS = (
    "authorization",
    "api-key",
    "x-api-key",
    "cookie",
    "x-goog-api-key",
    "x-stainless-auth-token",
    "x-session-token",
    "x-made-up-by-somebody",
)


def files_with(needles: list[bytes], *folders: Path) -> list[tuple[Path, bytes]]:
    """Every file below the folders (write-ahead logs too) that holds one of the needles."""
    files = [path for folder in folders for path in [folder, *folder.rglob("*")] if path.is_file()]
    assert any(path.name.endswith("-wal") for path in files), "the spool's write-ahead log is among what is searched"
    found = []
    for path in files:
        content = path.read_bytes()
        found += [(path, needle) for needle in needles if needle in content]
    return found


def test_no_credential_is_written(over: Site) -> None:
    canaries = {name: f"canary-{uuid.uuid4().hex}" for name in SECRET_HEADERS}
    in_url, in_answer = f"canary-{uuid.uuid4().hex}", f"canary-{uuid.uuid4().hex}"
    kept = f"kept-{uuid.uuid4().hex}"
    replies = [
        Reply(content="x", delivery=Delivery(headers={"set-cookie": f"session={in_answer}"})),
        Reply(delivery=Delivery(status=401, headers={"www-authenticate": in_answer})),
        Reply(content="x", delivery=Delivery(malformed=b"no JSON", headers={"x-token": in_answer})),
    ]
    over.script(lambda _: replies.pop(0))
    client, headers = over.http(over.name), canaries | {"authorization": f"Bearer {canaries['authorization']}"}
    for _ in range(3):
        client.post(
            f"{ENGINE}/chat/completions?key={in_url}&api-version=1",
            json={"messages": say(kept), "model": "m"},
            headers=headers,
        )
    over.rows(2)
    assert len(over.quarantined()) == 1

    received = dict(over.calls[0].headers)
    assert {name: received[name] for name in SECRET_HEADERS} == headers  # it really went past us
    world = over.world
    pair = f"{over.name}:{world.token}".encode()
    secrets = [*canaries.values(), in_url, in_answer, world.token, base64.b64encode(pair).decode()]
    needles = [secret.encode() for secret in secrets]
    assert files_with(needles, world.data, world.log) == []
    assert files_with([kept.encode()], world.data) != []  # the search finds what is there


def test_nothing_of_the_proxy_reaches_the_upstream(over: Site) -> None:
    over.script(Reply(content="x"))
    client = over.openai(over.name)
    client.chat.completions.create(model="m", messages=say("hi"))
    over.openai(None).chat.completions.create(model="m", messages=say("hi"))
    # Without a tunnel the client sends the proxy its credentials with each request.
    plain = over.http(over.name).post(
        f"{ENGINE.replace('https', 'http')}/chat/completions", json={"messages": say("hi")}
    )
    assert plain.status_code == 200
    assert len(over.calls) == 3
    for call in over.calls:
        names = {name for name, _ in call.headers}
        assert not {
            name for name in names if name.startswith(("proxy-", "x-stepwell", "x-forwarded", "via", "forwarded"))
        }
        values = " ".join(value for _, value in call.headers)
        assert over.world.token not in values
        assert over.name not in values
    over.rows(2)


def of_anthropic(token: str) -> tuple[str, dict[str, Any]]:
    """A request that names an MCP server as Anthropic's API wants it, and where it goes."""
    server = {"type": "url", "url": "https://mcp.example/sse", "name": "docs", "authorization_token": token}
    asked = {"model": "claude-x", "max_tokens": 50, "messages": say("kept-content"), "mcp_servers": [server]}
    return "https://api.anthropic.com/v1/messages", asked


def of_responses(token: str) -> tuple[str, dict[str, Any]]:
    """The same for OpenAI's Responses."""
    headers = {"Authorization": f"Bearer {token}", "X-Docs-Key": token}
    tool = {"type": "mcp", "server_label": "docs", "server_url": "https://mcp.example/sse", "headers": headers}
    return f"{PLAIN}/responses", {"model": "m", "input": "kept-content", "tools": [tool]}


def echo(call: ChatCall, framing: str) -> bytes:
    """An answer in which the server repeats what it was asked, credentials and all."""
    said = {name: call.body[name] for name in ("mcp_servers", "tools") if name in call.body}
    whole: dict[str, Any]
    events: list[dict[str, Any]]
    if call.dialect == "anthropic.messages":
        content: list[Any] = [{"type": "text", "text": "kept-answer"}]
        whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": content}
        whole |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}, **said}
        events = [{"type": "message_start", "message": {**whole, "content": []}}]
    else:
        content = [{"type": "output_text", "text": "kept-answer", "annotations": []}]
        item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": content}
        whole = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [item], **said}
        events = [{"type": kind, "response": whole} for kind in ("response.created", "response.completed")]
    if framing == "stream":
        return b"".join(f"event: {it['type']}\ndata: {json.dumps(it)}\n\n".encode() for it in events)
    return json.dumps(whole, indent=2).encode() + (b"nonsense" if framing == "broken" else b"")


def echoing(call: ChatCall, framing: str, packed: bool) -> Reply:
    return Reply(delivery=Delivery(malformed=echo(call, framing), gzip=packed))


def all_that_is_kept(site: Site) -> bytes:
    """Every body in the spool and in the tables without its compression, and every step whole: what a search of files does not see."""
    eventually(lambda: (now := site.world.health())["in_flight"] == 0 == now["pending"], "the proxy is idle")
    with SpoolReader(site.world.data / "spool" / "proxy.db") as reader:
        records = reader.read(0, limit=100_000, max_bytes=1 << 62)
    parts = [record.head for record in records]
    parts += [decoded(record.body, json.loads(record.head or b"{}").get("headers", [])).body for record in records]
    for row in site.quarantined():
        parts += [decoded(row[f"{side}_body"] or b"", []).body for side in ("request", "response")]
        parts.append(repr(row).encode())
    steps = site.world.warehouse.steps(f"trajectory_id = '{site.name}'").read_all().to_pylist()
    return b"\n".join([*parts, repr(steps).encode()])


@pytest.mark.parametrize("asked", [of_anthropic, of_responses])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_no_credential_for_an_mcp_server_is_written(
    site: Site, asked: Callable[[str], tuple[str, dict[str, Any]]], packed: bool
) -> None:
    """They belong to a third party, to which the provider takes them. Servers repeat them in their answers, in every form."""
    client, token = site.http(site.name), f"canary-{uuid.uuid4().hex}"
    url, body = asked(token)
    answers = []
    for framing in ("whole", "stream", "broken"):
        site.script(partial(echoing, framing=framing, packed=packed))
        answers.append(client.post(url, json={**body, "stream": framing == "stream"}))
    assert all(token in answer.text for answer in answers), "the agent gets all of it"
    assert all(token.encode() in call.request for call in site.calls), "and so does the upstream"
    compressed = gzip.compress(json.dumps(body).encode())
    client.post(url, content=compressed, headers={"content-type": "application/json", "content-encoding": "gzip"})
    kept = all_that_is_kept(site)
    assert kept.count(b"kept-content") >= 4
    assert b"kept-answer" in kept
    assert token.encode() not in kept
    assert token.encode() not in all_that_is_kept(site), "nor once it is all in the tables"
    assert files_with([token.encode()], site.world.data, site.world.log) == []
