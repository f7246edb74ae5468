"""Exchanges as JSON objects."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import NotAnExchange, found_in_json, parse

REQUEST = {
    "method": "post",
    "url": "https://api.openai.com/v1/chat/completions",
    "headers": [["Accept", "*/*"]],
    "body": '{"model": "m", "messages": [{"role": "user", "content": "hi"}]}',
}
ANSWER = {"id": "r", "model": "m", "choices": [{"index": 0, "message": {"content": "ho"}, "finish_reason": "stop"}]}
RESPONSE = {"status": 200, "headers": {"Content-Type": "application/json"}, "body": json.dumps(ANSWER)}


def said(value: dict[str, Any]) -> list[str]:
    texts = []
    for step in parse(found_in_json(value).exchange):
        assert step.response is not None
        texts.append("".join(part["text"] for part in step.response["content"]))
    return texts


def test_an_exchange() -> None:
    made = found_in_json({"id": "mine", "request": REQUEST, "response": RESPONSE})
    exchange = made.exchange
    assert (made.name, exchange.request.method, exchange.dialect) == ("mine", "POST", "openai.chat")
    assert (exchange.response.status, exchange.response.end) == (200, "complete")
    (step,) = parse(exchange)
    assert (step.status, step.started_at, step.finished_at, step.model_asked) == ("ok", None, None, "m")


def test_bodies_may_be_bytes_or_json_as_it_is() -> None:
    packed = base64.b64encode(gzip.compress(json.dumps(ANSWER).encode())).decode()
    asked = {**REQUEST, "body": json.loads(str(REQUEST["body"]))}
    coded = {"status": 200, "headers": {"content-encoding": "gzip"}, "body_b64": packed}
    assert said({"request": asked, "response": {"status": 200, "body": ANSWER}}) == ["ho"]
    assert said({"request": asked, "response": coded}) == ["ho"]


def test_text_is_not_compressed_whatever_the_wire_was() -> None:
    assert said({"request": REQUEST, "response": {**RESPONSE, "headers": {"content-encoding": "br"}}}) == ["ho"]


@pytest.mark.parametrize("request_field", [{"request": None}, {}])
def test_an_answer_alone(request_field: dict[str, Any]) -> None:
    made = found_in_json({**request_field, "response": RESPONSE})
    assert (made.exchange.request_known, made.exchange.dialect) == (False, "openai.chat")
    assert said({**request_field, "response": RESPONSE}) == ["ho"]


@pytest.mark.parametrize("response", [None, {"status": 0, "headers": [], "body": ""}, {"body": None}])
def test_a_request_alone(response: Any) -> None:
    (step,) = parse(found_in_json({"request": REQUEST, "response": response}).exchange)
    assert step.status in ("aborted", "error")
    assert "the recording holds no answer" in str(step.extra)


def test_a_status_that_was_left_out_is_200() -> None:
    assert said({"request": REQUEST, "response": {"body": json.dumps(ANSWER)}}) == ["ho"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "it is no JSON object"),
        ([], "it is no JSON object"),
        ({}, "neither a request nor a response"),
        ({"messages": []}, "neither a request nor a response"),
        ({"request": "GET /", "response": RESPONSE}, "its request is no JSON object"),
        ({"request": {"url": "x"}, "response": RESPONSE}, "no method or no URL"),
        ({"request": REQUEST, "response": "ok"}, "its response is no JSON object"),
        ({"response": {"status": "completed", "output": []}}, "neither an HTTP status nor a body"),
        ({"request": REQUEST, "response": {"status": 200, "body_b64": "A"}}, "the response's body is no base64"),
        ({"request": {**REQUEST, "headers": "a"}, "response": RESPONSE}, "headers are neither"),
    ],
)
def test_what_is_no_exchange_says_what_it_lacks(value: Any, reason: str) -> None:
    with pytest.raises(NotAnExchange, match=reason):
        found_in_json(value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = ("method", "url", "headers", "body", "body_b64", "status")
sides = json_values | st.dictionaries(st.sampled_from(fields), json_values, max_size=6)


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries({}, optional={"request": sides, "response": sides, "id": json_values}))
def test_any_json_is_an_exchange_or_is_refused(value: dict[str, Any]) -> None:
    try:
        made = found_in_json(value)
    except NotAnExchange:
        return
    assert made.exchange.id.startswith("import-")
