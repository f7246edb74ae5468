from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from pydantic import ValidationError

from stepwell.gateway import GatewayConfig
from stepwell.gateway._problems import Problem
from stepwell.gateway._webhooks import Signatures

SECRET, OTHER = "a secret of the service", "the one that comes after"
BODY = json.dumps({"step_id": "s", "type": "thumbs_up"}).encode()


def signed(body: bytes = BODY, secret: str = SECRET, at: float | None = None) -> dict[str, str]:
    timestamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json",
        "x-stepwell-timestamp": timestamp,
        "x-stepwell-signature": f"v1={digest}",
    }


@pytest.fixture
def hooked(api_of: Any) -> Any:
    api = api_of(GatewayConfig(webhooks={"shop": SECRET, "both": (SECRET, OTHER)}))
    del api.http.headers["authorization"]
    return api


def post(api: Any, headers: dict[str, str], body: bytes = BODY, source: str = "shop") -> Any:
    return api.post(f"/webhooks/{source}", content=body, headers=headers)


def test_a_signed_event_needs_no_token(hooked: Any) -> None:
    answer = post(hooked, signed())
    assert answer.status_code == 200 and answer.json()["items"][0]["status"] == "accepted"
    assert hooked.bodies()[0]["rating"] == 1.0
    assert hooked.post("/events", content=BODY, headers=signed()).status_code == 401  # that one does


def test_a_replay_is_refused(hooked: Any) -> None:
    at = time.time()
    headers = signed(at=at)
    assert post(hooked, headers).status_code == 200
    answer = post(hooked, headers)
    assert (answer.status_code, len(hooked.records())) == (409, 1)
    assert post(hooked, signed(at=at - 1)).status_code == 200  # the same words, signed anew


def test_the_other_signature_of_a_pair_is_no_second_ticket(hooked: Any) -> None:
    at = time.time()
    one, two = signed(at=at), signed(secret=OTHER, at=at)
    both = {**one, "x-stepwell-signature": f"{one['x-stepwell-signature']}, {two['x-stepwell-signature']}"}
    assert post(hooked, both, source="both").status_code == 200
    assert post(hooked, two, source="both").status_code == 409


def test_a_refused_event_may_not_be_replayed_and_a_full_spool_may(api_of: Any) -> None:
    api = api_of(GatewayConfig(webhooks={"shop": SECRET}), max_spool_bytes=100)
    headers = signed()
    assert [post(api, headers).status_code for _ in range(2)] == [503, 503]
    bad = signed(b"{}")
    assert [post(api, bad, b"{}").status_code for _ in range(2)] == [422, 409]


@pytest.mark.parametrize(
    "change",
    [
        {"x-stepwell-signature": ""},
        {"x-stepwell-signature": "v1=" + "0" * 64},
        {"x-stepwell-timestamp": ""},
        {"x-stepwell-timestamp": "soon"},
        {"x-stepwell-timestamp": "1760000000.5"},
        {"x-stepwell-timestamp": "9" * 30},
    ],
)
def test_what_does_not_fit_is_refused(hooked: Any, change: dict[str, str]) -> None:
    assert post(hooked, {**signed(), **change}).status_code == 401
    assert hooked.records() == []


def test_body_secret_source_and_time_are_signed(hooked: Any) -> None:
    assert post(hooked, signed(), BODY + b" ").status_code == 401
    assert post(hooked, signed(secret=OTHER)).status_code == 401
    assert post(hooked, signed(), source="unknown").status_code == 401
    for off in (-301, 302):
        assert "clock" in post(hooked, signed(at=time.time() + off)).json()["detail"]
    for off in (-290, 290):
        assert post(hooked, signed(at=time.time() + off)).status_code == 200
    assert hooked.records() and len(hooked.records()) == 2


def test_an_unknown_source_and_a_wrong_secret_sound_alike() -> None:
    signatures = Signatures({"shop": SECRET}, clock=lambda: 0.0)
    said = []
    for source in ("shop", "nobody"):
        with pytest.raises(Problem) as caught:
            signatures.check(source, "0", "v1=00", b"")
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_secrets_are_long_and_not_shown() -> None:
    config = GatewayConfig(webhooks={"shop": SECRET})
    assert SECRET not in repr(config)
    assert GatewayConfig.model_validate_json(config.model_dump_json()) == config  # as it travels to the process
    for bad in ({"shop": "short"}, {"shop": [SECRET, ""]}, {"a b": SECRET}):
        with pytest.raises(ValidationError):
            GatewayConfig.model_validate({"webhooks": bad})
