from __future__ import annotations

import pytest

from stepwell import sdk
from stepwell.testing import MemoryGateway, recorded


def test_what_a_program_submits_is_there_to_be_looked_at() -> None:
    with recorded() as records:
        with sdk.trajectory("t", group="g") as t:
            step = sdk.submit_step(prompt_ids=[1, 2], response_ids=[3], reward=1.0, step="s")
            t.reward(0.5, name="judge")
        assert step == "s"
        (one,) = records.steps
        assert (one["step_id"], one["prompt_ids"], one["trajectory_id"], one["group_id"]) == ("s", [1, 2], "t", "g")
        assert [(said["name"], said["reward"]) for said in records.feedback] == [("judge", 0.5)]
        assert [said["state"] for said in records.trajectories] == ["open", "completed"]
        assert records.exchanges == []


def test_the_same_id_is_kept_once() -> None:
    with recorded() as records:
        for _ in range(2):
            sdk.submit_step(step="s", prompt_ids=[1], response_ids=[2])
        assert len(records.steps) == 1
        assert sdk.status().duplicates == 1


def test_the_client_before_is_back_afterwards() -> None:
    client = sdk.Client("http://gateway", "t", transport=MemoryGateway())
    before = sdk.use(client)
    try:
        with pytest.raises(ZeroDivisionError), recorded():
            assert sdk.status().url != client.url
            raise ZeroDivisionError
        assert sdk.status().url == client.url
    finally:
        sdk.use(before)
        client.close()


def test_it_refuses_what_a_gateway_refuses() -> None:
    import httpx2

    with httpx2.Client(transport=MemoryGateway(), base_url="http://gateway") as http:
        answer = http.post("/api/v1/steps", json=[{"prompt_ids": [1]}, {"prompt_ids": [1], "response_ids": [2]}])
        assert [item["status"] for item in answer.json()["items"]] == ["refused", "accepted"]
        assert answer.json()["items"][0]["field"] == "response_ids"
        assert http.post("/api/v1/else", json={}).status_code == 404
