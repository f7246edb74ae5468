"""No transport credential is written anywhere, and none that was for the proxy reaches the upstream."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

from stepwell.testing import Delivery, Reply

from .conftest import ENGINE, Site, say

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
