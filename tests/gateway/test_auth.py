from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from stepwell.errors import SettingsError
from stepwell.gateway import GatewayConfig, Scope, Tokens, create_app, run_gateway

PROTECTED = [
    "/api/v1/version",
    "/api/v1/steps",
    "/api/v1/openapi.json",
    "/api/v1/nothing",
    "/nothing",
    "/assets",
    "/docs",
]


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


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "home")


@pytest.fixture
def client_of(api: Any, warehouse: Any, token: str, tokens: Tokens) -> Callable[..., TestClient]:
    """A client of a gateway that knows `tokens`, from some address."""

    def client(config: GatewayConfig | None = None, address: str = "127.0.0.1") -> TestClient:
        app = create_app(
            writer=api.writer, spool_folder=api.folder, token=token, warehouse=warehouse, config=config, tokens=tokens
        )
        return TestClient(app, base_url="http://127.0.0.1:8787", client=(address, 5000))

    return client


def as_(shown: str) -> dict[str, str]:
    return {"authorization": f"Bearer {shown}"}


ASKED = {
    "submit": ("POST", "/api/v1/steps", {"prompt_ids": [1], "response_ids": [2]}),
    "judge": ("POST", "/api/v1/feedback", {"step_id": "s", "reward": 1}),
    "read": ("GET", "/api/v1/datasets", None),
    "declare": ("PUT", "/api/v1/policy", {"name": "p", "version": 1}),
}


@pytest.mark.parametrize(
    ("scopes", "may"),
    [
        (["ingest"], {"submit", "judge"}),
        (["read"], {"read"}),
        (["curate"], {"judge"}),
        (["read", "curate"], {"read", "judge"}),
        (["admin"], set(ASKED)),
    ],
)
def test_a_token_may_what_its_scopes_say(
    client_of: Callable[..., TestClient], tokens: Tokens, scopes: list[Scope], may: set[str]
) -> None:
    http, shown = client_of(), tokens.create(scopes)[0]
    for name, (method, path, body) in ASKED.items():
        answer = http.request(method, path, json=body, headers=as_(shown))
        assert answer.status_code == (200 if name in may else 403), name
        if name not in may:
            assert answer.headers["content-type"] == "application/problem+json"
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
            assert path in answer.json()["detail"] and shown not in answer.text
    assert http.get("/api/v1/version", headers=as_(shown)).status_code == 200
    assert http.get("/api/v1/openapi.json", headers=as_(shown)).status_code == 200


def test_the_scope_that_is_missing_is_named(client_of: Callable[..., TestClient], tokens: Tokens) -> None:
    http, shown = client_of(), tokens.create(["read"])[0]
    answer = http.post("/api/v1/steps", json={}, headers=as_(shown))
    assert "scope ingest" in answer.json()["detail"] and 'scope="ingest"' in answer.headers["www-authenticate"]
    assert "scope admin" in http.delete("/api/v1/steps", headers=as_(shown)).json()["detail"]


def test_unknown_expired_and_revoked_tokens_are_401(client_of: Callable[..., TestClient], tokens: Tokens) -> None:
    http = client_of()
    expired = tokens.create(["admin"], seconds=-1)[0]
    revoked, entry = tokens.create(["admin"])
    tokens.revoke(entry.id)
    good = tokens.create(["admin"])[0]
    details = set()
    for wrong in (expired, revoked, good + "x", good[:-1], "stepwell_" + "0" * 12 + "_x"):
        answer = http.get("/api/v1/datasets", headers=as_(wrong))
        assert answer.status_code == 401 and 'error="invalid_token"' in answer.headers["www-authenticate"]
        details.add(answer.json()["detail"])
    assert len(details) == 1  # nothing is said of which it is
    assert http.get("/api/v1/datasets", headers={"authorization": f"Basic {good}"}).status_code == 401
    assert http.get("/api/v1/datasets", headers=as_(good)).status_code == 200


def test_the_installations_token_is_for_this_machine(
    client_of: Callable[..., TestClient], tokens: Tokens, token: str
) -> None:
    open_ = GatewayConfig(host="10.0.0.7")
    shown = tokens.create(["read"])[0]
    for address, status in (("127.0.0.1", 200), ("::1", 200), ("10.0.0.9", 401), ("nonsense", 401)):
        assert client_of(open_, address).get("/api/v1/datasets", headers=as_(token)).status_code == status
        assert client_of(open_, address).get("/api/v1/datasets", headers=as_(shown)).status_code == 200
    assert (
        client_of(None, "10.0.0.9").get("/api/v1/datasets", headers=as_(token)).status_code == 200
    )  # a proxy's business


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.0.0.2", True), ("0.0.0.0", False), ("box", False)],
)
def test_where_it_is_reached_from(host: str, local: bool) -> None:
    assert GatewayConfig(host=host).is_local is local


def test_elsewhere_it_does_not_start_without_tokens(tmp_path: Path) -> None:
    def run() -> None:
        run_gateway(
            GatewayConfig(host="192.0.2.1", port=0),
            data=tmp_path,
            home=tmp_path / "home",
            token="t",
            warehouse="",
            storage_options=None,
            ready=lambda said: None,
        )

    Tokens(tmp_path / "home").create(["read"], seconds=-1)
    with pytest.raises(SettingsError, match="stepwell token create"):
        run()
    assert not (tmp_path / "spool").exists()
    Tokens(tmp_path / "home").create(["read"])
    with pytest.raises(SettingsError, match="cannot listen on"):  # no address of this machine
        run()
