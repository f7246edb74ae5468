from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from stepwell import sdk
from stepwell.errors import InvalidRecord, SettingsError
from stepwell.home import create_token

TOKENS: dict[str, Any] = {"prompt_ids": [1, 2], "response_ids": [3]}


def test_a_step_reaches_the_gateways_disk(gateway: Any, client: sdk.Client) -> None:
    id = client.submit_step(**TOKENS, logprobs=[-0.5], reward=1.0, trajectory="t", metadata={"a": None})
    assert client.flush() == sdk.Flushed(
        acknowledged=1, unacknowledged=0, refused=0, dropped=0, spooled=0, committed=None
    )
    (step,) = gateway.bodies("step")
    assert (step["step_id"], step["trajectory_id"], step["reward"]) == (id, "t", 1.0)
    assert (step["prompt_ids"], step["response_ids"], step["logprobs"]) == ([1, 2], [3], [-0.5])
    assert step["metadata"] == {"a": None}


def test_a_record_is_as_good_as_its_fields(gateway: Any, client: sdk.Client) -> None:
    step = sdk.Step(step_id="s", **TOKENS)
    assert client.submit_step(step) == "s"
    assert client.submit_step(step, step_id="s2", trajectory="t") == "s2"
    assert client.submit_feedback(sdk.Feedback(feedback_id="f", step_id="s", reward=1)) == "f"
    client.flush()
    assert [(body["step_id"], body.get("trajectory_id")) for body in gateway.bodies("step")] == [
        ("s", None),
        ("s2", "t"),
    ]
    assert [body["feedback_id"] for body in gateway.bodies("feedback")] == ["f"]


def test_feedback_of_every_kind(gateway: Any, client: sdk.Client) -> None:
    client.submit_feedback(step="s", reward=0.5, name="unit_tests")
    client.submit_feedback(response_id="r", rating=4, scale=5, comment="good", author="ann")
    client.submit_feedback(chosen="a", rejected="b")
    client.submit_feedback(group="g", label="odd")
    client.submit_feedback(step="s", correction="better")
    assert client.flush().acknowledged == 5
    said = gateway.bodies("feedback")
    assert [body.get("step_id") for body in said] == ["s", None, "a", None, "s"]
    assert said[2]["rejected_id"] == "b" and said[4]["correction"]["content"] == "better"
    assert all("at" in body for body in said)


def test_order_is_kept_across_kinds(gateway: Any, client: sdk.Client) -> None:
    for number in range(30):
        client.submit_step(step_id=f"s{number}", **TOKENS)
        client.submit_feedback(feedback_id=f"f{number}", step=f"s{number}", reward=1)
    client.flush()
    ids = [record.id for record in gateway.records()]
    assert ids == [name for number in range(30) for name in (f"step.s{number}", f"feedback.f{number}")]


def test_bad_input_raises_at_once_and_sends_nothing(client: sdk.Client) -> None:
    with pytest.raises(InvalidRecord) as caught:
        client.submit_step(prompt_ids=[1], response_ids=[2], logprobs=[float("nan")])
    assert caught.value.field == "logprobs[0]"
    with pytest.raises(InvalidRecord, match="reward"):
        client.submit_feedback(step="s", reward=float("inf"))
    with pytest.raises(InvalidRecord, match="split"):
        client.trajectory(split="test")
    assert client.flush().acknowledged == 0 and client.status().pending == 0


def test_arguments_may_be_changed_afterwards(gateway: Any, client: sdk.Client) -> None:
    ids, messages, array = [1, 2], [{"role": "user", "content": "before"}], np.array([-0.5, -0.5])
    client.submit_step(prompt_ids=ids, response_ids=ids, logprobs=array, messages=messages)
    ids[0], array[0], messages[0]["content"] = 9, -9.0, "after"
    client.flush()
    (step,) = gateway.bodies("step")
    assert (step["prompt_ids"], step["logprobs"]) == ([1, 2], [-0.5, -0.5])
    assert step["messages"] == [{"role": "user", "content": "before"}]


def test_the_same_id_twice_is_one_record(gateway: Any, client: sdk.Client) -> None:
    client.submit_step(step_id="s", **TOKENS)
    client.flush()
    client.submit_step(step_id="s", **TOKENS)
    assert client.flush().acknowledged == 2
    assert client.status().duplicates == 1
    assert len(gateway.records()) == 1


def test_no_gateway_raises_nothing_and_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    client = sdk.Client("http://127.0.0.1:9", "token")  # the discard port: nobody listens
    client.submit_step(**TOKENS)
    client.submit_step(**TOKENS)
    flushed = client.flush(timeout=0.5)
    assert (flushed.acknowledged, flushed.unacknowledged, flushed.spooled) == (0, 2, 2)
    status = client.status()
    assert status.pending == status.spooled == 2 and status.spooled_bytes > 0 and status.pending_bytes == 0
    assert "cannot be reached" in str(status.problem)
    client.close(timeout=0.1)
    client.close(timeout=0.1)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 2 and "are sent again" in said[0] and "2 records wait in" in said[1]


def test_memory_is_bounded(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")  # no folder: nothing can wait on the disk
    client = sdk.Client("http://127.0.0.1:9", "token", max_pending_bytes=1000, spool_folder=tmp_path / "file")
    for _ in range(50):
        client.submit_step(**TOKENS)
    status = client.status()
    assert status.pending_bytes <= 1000 and status.pending + status.dropped == 50 and status.dropped > 0
    assert len([record for record in caplog.records if "dropped" in record.getMessage()]) == 1
    assert client.flush(timeout=0).dropped == status.dropped
    client.close(timeout=0)
    assert f"{status.pending} records were not delivered" in caplog.text


def test_a_closed_client_drops_and_counts(client: sdk.Client, caplog: pytest.LogCaptureFixture) -> None:
    client.close()
    client.submit_step(**TOKENS)
    assert client.status().dropped == 1
    assert "the client is closed" in caplog.text


def test_a_wrong_token_says_what_to_do(gateway: Any, caplog: pytest.LogCaptureFixture, eventually: Any) -> None:
    client = sdk.Client(gateway.url, "not-the-token")
    client.submit_step(**TOKENS)
    eventually(lambda: client.status().problem is not None)
    client.close(timeout=0)
    assert "STEPWELL_TOKEN" in str(client.status().problem) and "STEPWELL_TOKEN" in caplog.text
    assert "not-the-token" not in caplog.text and gateway.records() == []


def test_a_token_that_is_made_later_is_found(gateway_of: Any, tmp_path: Path, eventually: Any, token: str) -> None:
    gateway = gateway_of()
    with sdk.Client(gateway.url) as client:
        client.submit_step(**TOKENS)
        eventually(lambda: "token" in str(client.status().problem))
        create_token(tmp_path / "home")
        (tmp_path / "home" / "token").write_text(token + "\n")
        assert client.flush().acknowledged == 1


def test_what_the_gateway_refuses_is_counted_and_said(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(422, json={"items": [{"status": "refused", "field": "reward", "message": "is odd"}]})

    with sdk.Client("http://gateway", "t", transport=httpx2.MockTransport(refuse)) as client:
        client.submit_step(**TOKENS)
        flushed = client.flush()
    assert (flushed.acknowledged, flushed.unacknowledged, flushed.refused) == (0, 0, 1)
    assert "reward is odd" in caplog.text


def test_a_full_spool_is_waited_for(gateway_of: Any, eventually: Any) -> None:
    gateway = gateway_of(max_spool_bytes=1000)
    with sdk.Client(gateway.url, "the-token-of-this-installation") as client:
        client.submit_step(step_id="large", **TOKENS, metadata={"filler": "x" * 2000})
        eventually(lambda: "503" in str(client.status().problem))
        assert client.status().pending == 1 and gateway.records() == []
        client.close(timeout=0)


def test_committed_waits_for_the_warehouse(gateway: Any, client: sdk.Client) -> None:
    client.submit_step(**TOKENS)
    assert client.flush(timeout=1, committed=True).committed is False
    gateway.warehouse.committed = {gateway.spool.producer: 1}
    assert client.flush(committed=True).committed is True


async def test_async_twins(gateway: Any, client: sdk.Client) -> None:
    id = await client.asubmit_step(**TOKENS)
    await client.asubmit_feedback(step=id, reward=1)
    assert (await client.aflush()).acknowledged == 2
    assert len(gateway.records()) == 2


def test_the_agents_proxy_is_not_used(gateway: Any, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with sdk.Client(gateway.url, token) as client:
        client.submit_step(**TOKENS)
        assert client.flush(timeout=10).acknowledged == 1


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8787",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://h?x=1",
        "http://[::1",
    ],
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(SettingsError, match="no address of a gateway"):
        sdk.Client(url)


def test_credentials_do_not_belong_into_the_address() -> None:
    with pytest.raises(SettingsError, match="credentials") as caught:
        sdk.Client("http://user:hush@host")
    assert "hush" not in str(caught.value)


def test_an_address_below_a_path() -> None:
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(str(request.url))
        return httpx2.Response(200, json={"items": [{"status": "accepted"}]})

    with sdk.Client("https://host/stepwell/", "t", transport=httpx2.MockTransport(answer)) as client:
        client.submit_step(**TOKENS)
        client.flush()
    assert seen == ["https://host/stepwell/api/v1/steps"]
