from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from stepwell.gateway import Tokens, create_app

STEP: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2]}
CALL: dict[str, Any] = {
    "url": "https://api.openai.com/v1/chat/completions",
    "request_body": "{}",
    "started_ns": 1,
    "finished_ns": 2,
}


@pytest.fixture
def post(api: Any, warehouse: Any, token: str, tmp_path: Path) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Submit with a token of the project `shop`; the items of the answer."""
    tokens = Tokens(tmp_path / "home")
    shown, _ = tokens.create(["ingest"], project="shop")
    app = create_app(writer=api.writer, spool_folder=api.folder, token=token, warehouse=warehouse, tokens=tokens)

    def send(path: str, value: Any, **more: Any) -> list[dict[str, Any]]:
        answer = http.post(f"/api/v1{path}", json=value, headers={"authorization": f"Bearer {shown}"}, **more)
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    with TestClient(app, base_url="http://127.0.0.1:8787") as http:
        yield send


def test_steps_carry_it(api: Any, post: Callable[..., Any]) -> None:
    post("/steps", STEP)
    post(
        "/steps",
        [{**STEP, "metadata": {"k": 1}}, {**STEP, "metadata": {"project": "shop"}}, {**STEP, "metadata": None}],
    )
    assert [step.metadata for step in api.steps()] == [
        {"project": "shop"},
        {"k": 1, "project": "shop"},
        {"project": "shop"},
        {"project": "shop"},
    ]


def test_so_does_all_else(api: Any, post: Callable[..., Any]) -> None:
    post("/feedback", {"step_id": "s", "reward": 1})
    post("/events", {"step_id": "s", "type": "copied"})
    post("/trajectories", {"trajectory_id": "t"})
    post("/trajectories/t/complete", {"reason": "done"})
    said = [body["metadata"] for body in api.bodies()]
    assert said == [
        {"project": "shop"},
        {"project": "shop", "event": "copied"},
        {"project": "shop"},
        {"project": "shop"},
    ]


def test_a_recorded_call_carries_it_as_captured_ones_carry_metadata(api: Any, post: Callable[..., Any]) -> None:
    assert post("/exchanges", {**CALL, "request_headers": [["x-stepwell-meta-team", "a"]]})[0]["status"] == "accepted"
    assert (
        post("/exchanges", {**CALL, "request_headers": [["X-Stepwell-Meta-Project", "shop"]]})[0]["status"]
        == "accepted"
    )
    heads = [json.loads(record.head) for record in api.records() if "response" not in record.kind]
    assert "x-stepwell-meta-project" in json.dumps(heads[0]).lower() and '"shop"' in json.dumps(heads[0])


def test_another_project_is_refused_and_its_neighbour_kept(api: Any, post: Callable[..., Any]) -> None:
    items = post("/steps", [{**STEP, "step_id": "a", "metadata": {"project": "other"}}, {**STEP, "step_id": "b"}])
    assert [item["status"] for item in items] == ["refused", "accepted"]
    assert items[0]["field"] == "metadata.project" and "'shop'" in items[0]["message"]
    [item] = post("/exchanges", {**CALL, "request_headers": [["X-Stepwell-Meta-Project", "other"]]})
    assert (item["status"], item["field"]) == ("refused", "request_headers")
    assert [step.step_id for step in api.steps()] == ["b"]


@pytest.mark.parametrize("bad", [{"metadata": 3}, {"metadata": [1]}])
def test_what_is_wrong_otherwise_is_said_as_ever(post: Callable[..., Any], bad: dict[str, Any]) -> None:
    [item] = post("/steps", {**STEP, **bad})
    assert (item["status"], item["field"]) == ("refused", "metadata")
    [item] = post("/exchanges", {**CALL, "request_headers": "x"})
    assert (item["status"], item["field"]) == ("refused", "request_headers")


def test_the_installations_token_has_none(api: Any) -> None:
    api.post("/steps", {**STEP, "metadata": {"project": "any"}})
    api.post("/steps", STEP)
    assert [step.metadata for step in api.steps()] == [{"project": "any"}, None]
