from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from stepwell.gateway import _about
from stepwell.gateway._problems import json_response


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/v1/nothing", 404), ("GET", "/api/v2/steps", 404), ("DELETE", "/api/v1/steps", 405), ("PUT", "/metrics", 405),
     ("GET", "/api/v1/steps/", 404), ("GET", "/api/v1/steps?limit=x", 422), ("POST", "/api/v1/steps", 400)],
)  # fmt: skip
def test_every_error_is_a_problem_document(api: Any, method: str, path: str, status: int) -> None:
    answer = api.http.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert problem["status"] == status and problem["type"] == "about:blank" and problem["title"] and problem["detail"]
    if status == 405:
        assert answer.headers["allow"]


def test_a_bug_is_a_problem_document_too_and_says_nothing(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*values: Any) -> Any:
        raise KeyError("the secret inside")

    monkeypatch.setattr(_about, "SpoolReader", fail)
    http = TestClient(api.app, base_url="http://localhost", raise_server_exceptions=False)
    answer = http.get("/api/v1/health")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answer.text


def test_a_clients_own_broken_words_can_be_repeated() -> None:
    body = bytes(json_response({"\ud800": ["\udfff", {"a": 1.5, "b": None}]}).body)
    assert json.loads(body) == {"?": ["?", {"a": 1.5, "b": None}]}


def test_numbers_that_json_lacks_become_null() -> None:
    assert bytes(json_response([float("nan"), float("inf")]).body) == b"[null,null]"
