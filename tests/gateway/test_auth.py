from __future__ import annotations

from typing import Any

import pytest

from stepwell.errors import SettingsError
from stepwell.gateway import GatewayConfig, create_app

PROTECTED = ["/api/v1/version", "/api/v1/steps", "/api/v1/openapi.json", "/api/v1/nothing", "/", "/docs"]


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x", "Bearer ü"]
)
def test_without_the_token_nothing_is_said(api: Any, token: str, path: str, header: str | None) -> None:
    del api.http.headers["authorization"]
    headers = {} if header is None else {"authorization": header.format(token=token).encode()}
    answer = api.http.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    assert token not in answer.text and answer.json()["status"] == 401


def test_a_submission_without_the_token_keeps_nothing(api: Any) -> None:
    answer = api.post("/steps", {"prompt_ids": [1], "response_ids": [2]}, headers={"authorization": "Bearer no"})
    assert answer.status_code == 401 and api.records() == []


@pytest.mark.parametrize("header", ["Bearer {token}", "bearer {token}", "Bearer  {token} "])
def test_with_the_token(api: Any, token: str, header: str) -> None:
    assert api.http.get("/api/v1/version", headers={"authorization": header.format(token=token)}).status_code == 200


def test_health_and_metrics_ask_for_none(api: Any) -> None:
    del api.http.headers["authorization"]
    assert api.get("/health").status_code == 200
    assert api.http.get("/metrics").status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:1", "localhost:8787", "LOCALHOST", "[::1]:8787", "[::1]"])
def test_this_machines_names(api: Any, host: str) -> None:
    assert api.http.get("/api/v1/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8787",
        "127.0.0.1.evil.example",
        "user@127.0.0.1",
        "127.0.0.1/x",
        "[::1",
        "",
        "0.0.0.0",
    ],
)
def test_a_name_rebound_to_this_machine_is_refused(api: Any, host: str) -> None:
    for path in ("/api/v1/health", "/metrics", "/api/v1/version"):
        assert api.http.get(path, headers={"host": host}).status_code == 421


def test_further_names_can_be_allowed(api_of: Any) -> None:
    api = api_of(GatewayConfig(allowed_hosts=("Box.example",), host="10.0.0.7"))
    for host, status in (("box.example:80", 200), ("10.0.0.7", 200), ("localhost", 200), ("other.example", 421)):
        assert api.http.get("/api/v1/health", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://127.0.0.1:8787", "http://127.0.0.1:9999", "http://localhost:8787", "null", ""],
)
def test_other_peoples_pages_are_refused(api: Any, origin: str) -> None:
    answer = api.post("/steps", {"prompt_ids": [1], "response_ids": [2]}, headers={"origin": origin})
    assert answer.status_code == 403 and api.records() == []
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_the_gateways_own_page_may(api: Any) -> None:
    assert api.http.get("/api/v1/version", headers={"origin": "http://127.0.0.1:8787"}).status_code == 200
    preflight = api.http.options("/api/v1/steps", headers={"origin": "http://127.0.0.1:8787"})
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def test_an_empty_token_is_no_token(api: Any) -> None:
    with pytest.raises(SettingsError, match="token"):
        create_app(writer=api.writer, spool_folder=api.folder, token="", warehouse=lambda: None)  # type: ignore[arg-type,return-value]
