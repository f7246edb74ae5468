from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest

from stepwell.sdk._outbox import Item
from stepwell.sdk._post import Again, Answer, Poster, Settled, TooMuch

ITEMS = [Item("step", "a", b'{"step_id":"a"}'), Item("step", "b", b'{"step_id":"b"}')]


def posted(answer: Callable[[httpx2.Request], httpx2.Response], token: str | None = "secret") -> Answer:
    poster = Poster("http://gateway", lambda: token, httpx2.MockTransport(answer))
    try:
        return poster.post(ITEMS)
    finally:
        poster.close()


def said(status: int, body: Any, **headers: str) -> Answer:
    return posted(
        lambda request: httpx2.Response(status, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
    )


def test_the_request() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"items": [{"status": "accepted"}, {"status": "duplicate"}]})

    assert posted(answer) == Settled(2, 1)
    assert str(seen[0].url) == "http://gateway/api/v1/steps"
    assert seen[0].headers["authorization"] == "Bearer secret"
    assert json.loads(seen[0].content) == [{"step_id": "a"}, {"step_id": "b"}]


def test_what_crosses_a_network_is_compressed() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"items": [{"status": "accepted"}]})

    large, small = Item("exchange", "a", b'{"a":"%b"}' % (b"x" * 5000)), Item("exchange", "a", b'{"a":"x"}')
    for url, item in (
        ("https://far", large),
        ("https://far", small),
        ("http://127.0.0.1:1", large),
        ("http://[::1]", large),
    ):
        poster = Poster(url, lambda: None, httpx2.MockTransport(answer))
        assert poster.post([item]) == Settled(1)
        poster.close()
    assert [request.headers.get("content-encoding") for request in seen] == ["gzip", None, None, None]
    assert gzip.decompress(seen[0].content) == b"[" + large.body + b"]" and len(seen[0].content) < 500
    assert seen[0].url.path == "/api/v1/exchanges"


def test_a_real_gateway_takes_what_is_compressed(gateway: Any, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.sdk._post._THIS_MACHINE", frozenset())
    poster = Poster(gateway.url, lambda: token)
    steps = [
        Item("step", id, b'{"step_id":"%b","prompt_ids":[%b],"response_ids":[1]}' % (id.encode(), b"1," * 2000 + b"1"))
        for id in "ab"
    ]
    assert poster.post(steps) == Settled(2)
    poster.close()
    assert len(gateway.bodies("step")) == 2


def test_no_token_no_header() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert "authorization" not in request.headers
        return httpx2.Response(401, json={"detail": "no"})

    found = posted(answer, token=None)
    assert isinstance(found, Again) and "STEPWELL_TOKEN" in found.reason


def test_each_record_is_answered_for() -> None:
    items = [{"status": "accepted"}, {"status": "refused", "field": "reward", "message": "too much"}]
    for status in (200, 422):
        found = said(status, {"items": items})
        assert isinstance(found, Settled)
        assert (found.acknowledged, [(one.id, one.field, one.message) for one in found.refused]) == (
            1,
            [("b", "reward", "too much")],
        )


@pytest.mark.parametrize("body", [{}, {"items": []}, {"items": [1, 2]}, {"items": None}, [], "text", {"items": [{}]}])
def test_an_answer_that_is_no_gateways_acknowledges_nothing(body: Any) -> None:
    assert isinstance(said(200, body), Again)


def test_no_json_at_all_acknowledges_nothing() -> None:
    assert isinstance(posted(lambda request: httpx2.Response(200, text="<html>")), Again)
    assert isinstance(posted(lambda request: httpx2.Response(200, content=b"[" * 100_000)), Again)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_refused_as_a_whole(status: int) -> None:
    found = said(status, {"detail": "too large"})
    assert isinstance(found, TooMuch) and "too large" in found.reason


@pytest.mark.parametrize("status", [301, 401, 403, 404, 429, 500, 502, 503])
def test_what_may_pass_later_is_tried_again(status: int) -> None:
    assert isinstance(said(status, {}), Again)


def test_retry_after_in_both_its_forms() -> None:
    def after(value: str) -> float | None:
        found = said(503, {}, retry_after=value)
        assert isinstance(found, Again)
        return found.after

    assert after("7") == 7.0
    assert after("99999") == 300.0
    assert after("soon") is None
    assert after("-1") is None
    assert after(format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)) == 0.0
    assert (after(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)) or 0) == 300.0


def test_a_broken_network_is_a_reason_to_try_again() -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("nobody there")

    found = posted(fail)
    assert isinstance(found, Again) and "nobody there" in found.reason and "http://gateway" in found.reason


def test_the_token_is_in_no_message() -> None:
    for status in (400, 401, 403, 500):
        found = said(status, {"detail": "no"})
        assert "secret" not in repr(found)


def test_the_barrier() -> None:
    def poster(status: int) -> Poster:
        return Poster(
            "http://gateway",
            lambda: None,
            httpx2.MockTransport(lambda request: httpx2.Response(status, json={"detail": "ingest lags"})),
        )

    assert poster(200).barrier(1.0) is None
    assert "ingest lags" in str(poster(504).barrier(1.0))
