from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stepwell import sdk
from stepwell.errors import SettingsError

TOKENS: dict[str, Any] = {"prompt_ids": [1, 2], "response_ids": [3]}


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    sdk.close(0)
    yield
    sdk.close(0)


def test_configured_by_hand(gateway: Any, token: str) -> None:
    sdk.configure(gateway.url, token)
    with sdk.trajectory(prompt="p") as t:
        step = sdk.submit_step(**TOKENS)
        sdk.submit_feedback(reward=1.0)
    sdk.submit_feedback(step=step, label="x")
    assert sdk.flush().acknowledged == 5
    assert sdk.status().url == gateway.url
    assert gateway.bodies("step")[0]["trajectory_id"] == gateway.bodies("feedback")[0]["trajectory_id"] == t.id


def test_configured_by_the_environment(gateway: Any, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_URL", gateway.url)
    monkeypatch.setenv("STEPWELL_TOKEN", token)
    sdk.submit_step(**TOKENS)
    assert sdk.flush().acknowledged == 1


def test_what_is_said_counts_more_than_the_environment(
    gateway: Any, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWELL_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("STEPWELL_TOKEN", token)
    sdk.configure(url=gateway.url)
    sdk.submit_step(**TOKENS)
    assert sdk.flush().acknowledged == 1


def test_the_local_gateway_by_default() -> None:
    assert sdk.status().url == "http://127.0.0.1:8787"


def test_a_bad_address_is_said_at_once() -> None:
    with pytest.raises(SettingsError):
        sdk.configure("nowhere")


def test_configured_again_nothing_queued_is_lost(gateway_of: Any, token: str, eventually: Any) -> None:
    one, other = gateway_of(), gateway_of()
    sdk.configure(one.url, token)
    with sdk.trajectory():
        sdk.submit_step(step_id="a", **TOKENS)
        sdk.configure(other.url, token)
        sdk.submit_step(step_id="b", **TOKENS)
    sdk.flush()
    eventually(lambda: len(one.records()) == 3)
    assert [body["step_id"] for body in one.bodies("step")] == ["a"]
    assert [body["step_id"] for body in other.bodies("step")] == ["b"]


def test_closed_and_used_again(gateway: Any, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_URL", gateway.url)
    sdk.configure(token=token)
    sdk.submit_step(**TOKENS)
    sdk.close()
    assert len(gateway.records()) == 1
    sdk.configure(token=token)
    sdk.submit_step(**TOKENS)
    assert sdk.flush().acknowledged == 1


async def test_async_twins(gateway: Any, token: str) -> None:
    sdk.configure(gateway.url, token)
    async with sdk.trajectory():
        step = await sdk.asubmit_step(**TOKENS)
        await sdk.asubmit_feedback(step=step, reward=1)
    assert (await sdk.aflush()).acknowledged == 4
