"""A token that is not good, or not good for this: nothing is lost, it is said what to do, and a right one delivers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stepwell import sdk
from stepwell.gateway._tokens import Tokens

TOKENS: dict[str, Any] = {"prompt_ids": [1, 2], "response_ids": [3]}


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


@pytest.fixture
def guarded(gateway_of: Any, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A gateway that knows of a new or revoked token at the next request."""
    monkeypatch.setattr("stepwell.gateway._grants.FRESH", 0.0)
    return gateway_of(tokens=tokens)


@pytest.fixture(autouse=True)
def _own_client() -> Iterator[None]:
    yield
    sdk.close(0)


def submitted(*names: str) -> None:
    for name in names:
        sdk.submit_step(step_id=name, **TOKENS)


def delivered(gateway: Any) -> list[str]:
    return [body["step_id"] for body in gateway.bodies("step")]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_token_without_the_scope(
    guarded: Any, tokens: Tokens, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    sdk.configure(guarded.url, tokens.create(["read"])[0])
    submitted("a", "b")
    flushed = sdk.flush(0.5)
    assert (flushed.acknowledged, flushed.unacknowledged, flushed.spooled, flushed.dropped) == (0, 2, 2, 0)
    assert "has not the scope ingest" in str(sdk.status().problem)
    submitted("c")
    assert sdk.flush(0.5).spooled == 3 and guarded.records() == []
    (said,) = warnings(caplog)
    assert "--scope ingest" in said and "sdk.configure(token=" in said

    sdk.configure(guarded.url, tokens.create(["ingest"])[0])
    submitted("d")
    assert sdk.flush(30) == sdk.Flushed(
        acknowledged=4, unacknowledged=0, refused=0, dropped=0, spooled=0, committed=None
    )
    assert delivered(guarded) == ["a", "b", "c", "d"] and sdk.status().problem is None
    assert len(warnings(caplog)) == 1


def test_a_token_that_is_revoked_in_between(guarded: Any, tokens: Tokens, eventually: Any) -> None:
    shown, made = tokens.create(["ingest"])
    sdk.configure(guarded.url, shown)
    submitted("a")
    assert sdk.flush(30).acknowledged == 1
    tokens.revoke(made.id)

    def turned_down() -> bool:  # what is known counts for the request that has it read anew
        submitted("more")
        return "does not accept the token" in str(sdk.status().problem)

    eventually(turned_down)
    assert sdk.flush(0.2).spooled > 0
    sdk.configure(guarded.url, tokens.create(["ingest"])[0])
    assert sdk.flush(30).unacknowledged == 0
    assert delivered(guarded)[0] == "a" and set(delivered(guarded)[1:]) == {"more"}


def test_what_a_process_without_a_good_token_leaves_the_next_one_delivers(guarded: Any, token: str) -> None:
    with sdk.Client(guarded.url, "not-the-token") as client:
        client.submit_step(step_id="a", **TOKENS)
        client.flush(0.3)
        client.close(0.1)
    with sdk.Client(guarded.url, token) as client:
        client.submit_step(step_id="b", **TOKENS)
        client.flush(30)
        assert (client.status().recovered, client.status().acknowledged) == (1, 1)
    assert delivered(guarded) == ["a", "b"]


def test_a_good_token_is_not_exchanged_under_what_was_submitted_with_it(
    guarded: Any, tokens: Tokens, eventually: Any
) -> None:
    """What was submitted with it may be of another project."""
    sdk.configure(guarded.url, tokens.create(["read"])[0])
    submitted("a")
    eventually(lambda: sdk.status().problem is not None)
    for name in ("one", "other"):
        sdk.configure(guarded.url, tokens.create(["ingest"], project=name)[0])
        submitted(name)
        assert sdk.flush(30).unacknowledged == 0
    assert sdk.status().acknowledged == 1  # by a client of its own
    found = {body["step_id"]: body["metadata"]["project"] for body in guarded.bodies("step")}
    assert found == {"a": "one", "one": "one", "other": "other"}


def test_another_gateway_gets_a_client_of_its_own(guarded: Any, gateway: Any, token: str, eventually: Any) -> None:
    sdk.configure(guarded.url, "not-the-token")
    submitted("a")
    eventually(lambda: sdk.status().problem is not None)
    waiting = sdk.use(None)
    assert waiting is not None
    sdk.use(waiting)
    sdk.configure(gateway.url, token)
    submitted("b")
    assert sdk.flush(30).acknowledged == 1
    assert (delivered(gateway), delivered(guarded)) == (["b"], [])
    assert waiting.status().pending == 1 and "does not accept the token" in str(waiting.status().problem)
    waiting.close(0)


def answering(*statuses: int | None) -> tuple[httpx2.MockTransport, list[int | None]]:
    """Answers in this order, then takes everything. None: cannot be reached."""
    left = list(statuses)

    def answer(request: httpx2.Request) -> httpx2.Response:
        status = left.pop(0) if left else 200
        if status is None:
            raise httpx2.ConnectError("away")
        return httpx2.Response(status, json={"detail": "no", "items": [{"status": "accepted"}]})

    return httpx2.MockTransport(answer), left


@pytest.mark.parametrize("status", [401, 403])
def test_it_is_said_once_and_also_after_other_trouble(status: int, caplog: pytest.LogCaptureFixture) -> None:
    transport, _ = answering(None, None, status, status, status)
    with sdk.Client("http://gateway", "t", transport=transport) as client:
        client.submit_step(**TOKENS)
        assert client.flush(30).acknowledged == 1
    away, denied = warnings(caplog)
    assert "cannot be reached" in away and "STEPWELL_TOKEN" in denied


def test_what_waits_for_a_token_is_bounded(tmp_path: Path) -> None:
    transport, _ = answering(*[401] * 1000)
    client = sdk.Client(
        "http://gateway",
        "t",
        transport=transport,
        spool_folder=tmp_path / "sdk",
        max_pending_bytes=1000,
        max_spooled_bytes=1000,
    )
    for number in range(40):
        client.submit_step(step_id=f"s{number}", **TOKENS)
        client.flush(0)
    status = client.status()
    assert 0 < status.dropped < 40 and status.pending == 40 - status.dropped and status.spooled > 0
    assert status.spooled_bytes + status.pending_bytes <= 2000
    client.close(0)
