"""A step token by token, its call as it crossed the wire, and where its prompt parts from another's."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.gateway.scene import Scene, step

from stepwell.reader import grpo
from stepwell.warehouse import Ingest
from stepwell.warehouse._parse.raw import Raw

LONG = 32_000


@pytest.fixture(scope="module", name="scene")
def _scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A line of three steps, the last of which drifts; a group of three trajectories, one without a reward; a long step."""
    scene = Scene(tmp_path_factory.mktemp("one"))
    scene.ingest.close()
    scene.ingest = Ingest(scene.warehouse, scene.spool, raw=Raw("all"))
    talk = [{"role": "user", "content": "one"}]
    more = [*talk, {"role": "assistant", "content": "first"}, {"role": "user", "content": "two"}]
    last = [*more, {"role": "assistant", "content": "second"}, {"role": "user", "content": "three"}]
    barred = {"trainable": False, "untrainable_reason": "so"}

    def said(messages: list[dict[str, Any]], response: str) -> dict[str, Any]:
        named = {"trajectory_id": "t", "model": "toy/model", "fingerprint": "toy:toy/model"}
        return {"messages": messages, "response": response, **named}

    scene.put("/trajectories", *({"trajectory_id": id_, "group_id": "g"} for id_ in ("t", "u", "v")))
    scene.put(
        "/steps",
        {"step_id": "a/0", "prompt_ids": [1, 2], "response_ids": [3, 4], "logprobs": [-0.1, -2], **said(talk, "first")},
        {"step_id": "a/1", "prompt_ids": [1, 2, 3, 4, 5], "response_ids": [6], **said(more, "second")},
        {"step_id": "a/2", "prompt_ids": [1, 2, 3, 9, 5, 6, 7], "response_ids": [8], **said(last, "third"), **barred},
        *({"step_id": id_, "trajectory_id": id_, "prompt_ids": [1], "response_ids": [2]} for id_ in ("u", "v")),
        {"step_id": "long", "prompt_ids": list(range(LONG)), "response_ids": list(range(LONG, LONG + 500)), "logprobs": [-1 / 3] * 500},
        {"step_id": "words", "messages": talk, "response": "no ids"},
    )  # fmt: skip
    scene.put("/feedback", {"trajectory_id": "t", "reward": 1}, {"trajectory_id": "u", "reward": 0})
    for id_ in ("t", "u", "v"):
        scene.http.post(f"/api/v1/trajectories/{id_}/complete")
    scene.commit()
    yield scene
    scene.close()


def tokens(scene: Scene, id_: str, **asked: Any) -> Any:
    return scene.http.get(f"/api/v1/steps/{id_.replace('/', '%2F')}/tokens", params=asked).json()


def test_tokens_with_what_becomes_of_them(scene: Scene) -> None:
    said = tokens(scene, "a/0")
    assert (said["prompt_ids"], said["response_ids"], said["logprobs"]) == ([1, 2], [3, 4], [-0.1, -2])
    assert (said["prompt_length"], said["response_length"], said["length"], said["from"], said["to"]) == (2, 2, 4, 0, 4)
    assert (said["mask"], said["sampled"], said["texts"]) == ([[2, 4]], [], None)
    assert tokens(scene, "a/2")["mask"] == [] and tokens(scene, "a/2")["untrainable_reason"] == "so"
    part = tokens(scene, "a/1", **{"from": 3, "to": 6})
    assert (part["prompt_ids"], part["response_ids"], part["from"], part["to"]) == ([4, 5], [6], 3, 6)
    assert tokens(scene, "a/1", **{"from": 99})["prompt_ids"] == []
    words = tokens(scene, "words")
    assert (words["length"], words["mask"], words["logprobs"]) == (0, [], None)
    assert scene.http.get("/api/v1/steps/nobody/tokens").status_code == 404


def test_who_sampled_the_prompt(scene: Scene) -> None:
    assert tokens(scene, "a/1")["sampled"] == [{"from": 2, "to": 4, "step_id": "a/0"}]
    assert tokens(scene, "a/2")["sampled"] == [{"from": 2, "to": 3, "step_id": "a/0"}]  # it drifts at the fourth id


def test_the_advantage_is_that_of_its_trajectory_within_the_group(scene: Scene) -> None:
    right = grpo([1.0, 0.0], [0, 0])
    assert tokens(scene, "a/0", advantage="grpo")["advantage"] == pytest.approx(float(right[0]))
    assert tokens(scene, "u", advantage="grpo-centred")["advantage"] == -0.5
    assert tokens(scene, "v", advantage="grpo")["advantage"] is None
    assert "no group" in tokens(scene, "long", advantage="grpo")["advantage_reason"]
    assert "advantage" not in tokens(scene, "a/0")


def test_a_long_step_is_a_small_answer(scene: Scene) -> None:
    answer = scene.http.get("/api/v1/steps/long/tokens")
    assert len(answer.content) < 500_000 and answer.json()["prompt_ids"] == list(range(LONG))
    assert answer.json()["logprobs"] == [-0.33333334] * 500


def test_texts_are_told_by_a_tokenizer_that_lies_there(scene: Scene) -> None:
    folder = scene.spool.parent / "tokenizers"
    folder.mkdir(exist_ok=True)
    (folder / "other.json").write_text(json.dumps([f"<{n}>" for n in range(5)]))
    scene.put("/steps", {"step_id": "told", "model": "other", "prompt_ids": [0, 4], "response_ids": [1, 7]})
    scene.commit()
    assert tokens(scene, "told")["texts"] == ["<0>", "<4>", "<1>", "\ufffd"]
    assert tokens(scene, "told", **{"from": 1, "to": 3})["texts"] == ["<4>", "<1>"]


def test_an_id_may_end_like_a_part_of_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    try:
        ids = ["x", *(f"x/{word}" for word in ("tokens", "diff", "exchange"))]
        scene.put("/steps", *(step(id_, id_, 0) for id_ in ids))
        scene.commit()
        for id_ in ids:
            assert scene.get("/steps", id_).json()["lineage"], id_
            assert scene.http.get(f"/api/v1/steps/{quote(id_, safe='')}/tokens").json()["step_id"] == id_
        assert scene.http.get("/api/v1/steps/x/tokens").json()["length"] == 3
        assert scene.http.get("/api/v1/steps/x/diff", params={"with": "x/diff"}).json()["b"]["step_id"] == "x/diff"
        for name in ("d", "d/diff", "d/lineage", "d/download"):
            assert scene.http.post("/api/v1/datasets", json={"name": name, "where": "true"}).status_code == 201
            assert scene.get("/datasets", name).json()["name"] == name
        assert scene.http.get("/api/v1/datasets/d%2Fdiff@1/lineage").json()["dataset"] == "d/diff@1"
    finally:
        scene.close()


def test_where_two_prompts_part(scene: Scene) -> None:
    said = scene.http.get("/api/v1/steps/a%2F1/diff", params={"with": "a/2"}).json()
    assert (said["a"]["step_id"], said["b"]["step_id"], said["b"]["drift_at"]) == ("a/1", "a/2", 3)
    messages, ids = said["messages"], said["tokens"]
    assert (messages["a"], messages["b"], messages["common_prefix"]) == (3, 5, 3)
    [change] = messages["changes"]
    assert (change["op"], change["a"], change["b"], change["a_messages"]) == ("insert", [3, 3], [3, 5], [])
    assert [one["role"] for one in change["b_messages"]] == ["assistant", "user"]
    assert (ids["a"], ids["b"], ids["common_prefix"], ids["common_suffix"], ids["continues"]) == (5, 7, 3, 0, 3)
    assert ids["a_ids"] == {"from": 0, "ids": [1, 2, 3, 4, 5], "differ": [3, 5]} and ids["same_tokenizer"]
    same = scene.http.get("/api/v1/steps/a%2F1/diff", params={"with": "a/1"}).json()
    assert same["messages"]["changes"] == [] and same["tokens"]["common_prefix"] == 5
    assert scene.http.get("/api/v1/steps/words/diff", params={"with": "a/1"}).json()["tokens"] is None
    for asked, status in (({"with": "nobody"}, 404), ({}, 422)):
        assert scene.http.get("/api/v1/steps/a%2F1/diff", params=asked).status_code == status


def test_a_call_as_it_crossed_the_wire(scene: Scene) -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "hé" * 50}]}
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    answered = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()
    now = int(datetime.now(UTC).timestamp() * 1e9)
    call: dict[str, Any] = {
        "exchange_id": "call/1",
        "url": "https://api.openai.com/v1/chat/completions",
        "request_headers": [["authorization", "Bearer sk-secret"], ["content-type", "application/json"]],
        "request_body": json.dumps(asked, ensure_ascii=False),
        "status": 200,
        "response_headers": [["content-encoding", "gzip"]],
        "response_body_b64": base64.b64encode(gzip.compress(answered)).decode(),
        "started_ns": now,
        "finished_ns": now,
        "trajectory_id": "t",
    }
    scene.put("/exchanges", call)
    scene.commit()
    answer = scene.http.get("/api/v1/steps/call%2F1.0/exchange")
    assert answer.status_code == 200 and "sk-secret" not in answer.text
    said = answer.json()
    assert (said["exchange_id"], said["dialect"], said["reason"]) == ("call/1", "openai.chat", None)
    assert json.loads(said["request"]["body"]) == asked and said["request"]["is_whole"]
    assert said["request"]["head"]["url"] == call["url"]
    assert said["response"]["body"] == answered.decode() and said["response"]["bytes"] == len(answered)
    cut = scene.http.get("/api/v1/steps/call%2F1.0/exchange", params={"max_bytes": 58}).json()["request"]
    assert not cut["is_whole"] and cut["body"] == call["request_body"].encode()[:58].decode("utf-8", "ignore")
    lost = scene.http.get("/api/v1/steps/u/exchange")
    assert lost.status_code == 404 and lost.json()["setting"] == "ingest.raw"


def test_of_two_attempts_each_has_its_own_call(scene: Scene) -> None:
    """They share a `call_id`."""
    now = int(datetime.now(UTC).timestamp() * 1e9)
    call: dict[str, Any] = {
        "url": "https://api.openai.com/v1/chat/completions",
        "request_headers": [["x-stainless-retry-count", "0"]],
        "request_body": json.dumps({"model": "m", "messages": [{"role": "user", "content": "again"}]}),
        "response_headers": [["content-type", "application/json"]],
        "started_ns": now,
        "finished_ns": now,
        "trajectory_id": "attempts",
    }
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    good = json.dumps({"id": "d", "object": "chat.completion", "model": "m", "choices": [choice]})
    scene.put(
        "/exchanges", {**call, "exchange_id": "a0", "status": 500, "response_body": '{"error": {"message": "no"}}'}
    )
    later = {"started_ns": now + 10**9, "finished_ns": now + 2 * 10**9}
    scene.put("/exchanges", {**call, **later, "exchange_id": "a1", "status": 200, "response_body": good})
    scene.commit()
    assert scene.get("/steps", "a1.0").json()["call_id"] == scene.get("/steps", "a0.0").json()["call_id"]
    for name in ("a0", "a1"):
        answer = scene.http.get(f"/api/v1/steps/{name}.0/exchange")
        assert answer.status_code == 200 and answer.json()["exchange_id"] == name
