from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stepwell.gateway import GatewayConfig
from stepwell.gateway._body import parsed
from stepwell.gateway._problems import Problem

STEP: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2]}


def test_a_body_that_is_too_large_is_refused(api_of: Any) -> None:
    api = api_of(GatewayConfig(max_body_bytes=2000))
    assert api.post("/steps", {**STEP, "metadata": {"x": "y" * 1000}}).status_code == 200
    answer = api.post("/steps", {**STEP, "metadata": {"x": "y" * 2000}})
    assert answer.status_code == 413 and "gateway.max_body_bytes" in answer.json()["detail"]


def test_also_when_it_does_not_say_how_large_it_is(api_of: Any) -> None:
    api = api_of(GatewayConfig(max_body_bytes=2000))

    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    answer = api.post("/steps", content=chunks(), headers={"content-type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1,]", b"\xff", b"{'a': 1}", b"[" * 100_000 + b"]" * 100_000, b"{} {}", b"nope"]
)
def test_what_is_no_json_is_a_bad_request(api: Any, body: bytes) -> None:
    answer = api.post("/steps", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("the body is n")


@pytest.mark.parametrize("value", [1, "text", True, 1.5])
def test_json_that_is_neither_object_nor_array(api: Any, value: Any) -> None:
    assert api.post("/steps", value).status_code == 400


def test_other_forms_are_refused_rather_than_guessed_at(api: Any) -> None:
    for headers in (
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/vnd.apache.arrow.file"},
        {"content-type": "application/json", "content-encoding": "br"},
        {"content-type": "application/json", "content-encoding": "gzip, gzip"},
    ):
        assert api.post("/steps", content=b"{}", headers=headers).status_code == 415
    ok = api.post(
        "/steps",
        content=b'{"prompt_ids":[1],"response_ids":[2]}',
        headers={"content-type": "application/json; charset=utf-8"},
    )
    assert ok.status_code == 200


def test_numbers_keep_their_value() -> None:
    assert parsed(b"[18446744073709551616, 123456789012345678901234567890, 0.1]") == [
        2**64,
        123456789012345678901234567890,
        0.1,
    ]


def test_what_only_a_field_can_be_blamed_for_comes_through() -> None:
    assert parsed(b'{"a": "\\ud800"}') == {"a": "\ud800"}
    assert repr(parsed(b"[NaN, -Infinity]")) == "[nan, -inf]"
    with pytest.raises(Problem):
        parsed(b"[" * 100_000)
