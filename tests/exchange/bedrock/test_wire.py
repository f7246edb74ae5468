"""The wire of Bedrock: paths, models in them, events in frames, exceptions."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import Response, Unparseable, dialect_for
from stepwell.exchange._bedrock.wire import error_in, model_of, read_events, request_id

from .frames import event, frame, text_header

ARN = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc1"


@pytest.mark.parametrize(
    ("path", "name", "model"),
    [
        ("/model/amazon.nova-micro-v1%3A0/converse", "bedrock.converse", "amazon.nova-micro-v1:0"),
        ("/model/amazon.nova-micro-v1:0/converse-stream", "bedrock.converse", "amazon.nova-micro-v1:0"),
        (f"/model/{ARN}/converse", "bedrock.converse", ARN),
        (f"/model/{ARN.replace(':', '%3A').replace('/', '%2F')}/invoke", "bedrock.invoke", ARN),
        ("/gateway/bedrock/model/m/invoke-with-response-stream", "bedrock.invoke", "m"),
        ("/model/m/converse?x=/y/z", "bedrock.converse", "m"),
        ("/model/invoke/converse", "bedrock.converse", "invoke"),
    ],
)
def test_a_path_names_the_api_and_the_model(path: str, name: str, model: str) -> None:
    dialect = dialect_for("POST", path)
    assert dialect is not None and dialect.name == name
    assert model_of(f"https://bedrock-runtime.<REGION>.amazonaws.com{path}#x") == model
    assert dialect.flags("vllm", {}) == {}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/model/m/converse"),
        ("POST", "/model/m/count-tokens"),
        ("POST", "/model/m/async-invoke"),
        ("POST", "/model/m/invoke-with-bidirectional-stream"),
        ("POST", "/model/m/converse/"),
        ("POST", "/model/m/converse/x"),
        ("POST", "/model//converse"),
        ("POST", "/model/converse"),
        ("POST", "/models/m/converse"),
        ("POST", "/m/converse"),
        ("POST", "/v1/converse?x=/model/m/converse"),
        ("POST", "/guardrail/g/version/1/apply"),
        ("POST", "/async-invoke"),
    ],
)
def test_what_is_no_generation(method: str, path: str) -> None:
    assert dialect_for(method, path) is None


def test_a_url_that_was_not_kept_names_no_model() -> None:
    assert model_of("") is None


def test_the_id_of_a_call_is_in_its_header() -> None:
    assert request_id(Response(200, [("x-amzn-requestid", "a")], b"", "complete", 1)) == "a"
    assert request_id(Response(200, [], b"", "complete", 1)) is None


def test_events_come_with_their_kinds_up_to_the_exception() -> None:
    first = event("initial-response", b"") + event("messageStart", {"role": "assistant"})
    body = first + event("throttlingException", {"message": "slow"}, "exception") + event("late", {})
    found = read_events(body, True)
    assert found.events == [("messageStart", {"role": "assistant"})]
    assert found.error == {"type": "throttlingException", "message": "slow"}


@pytest.mark.parametrize(
    ("headers", "payload", "error"),
    [
        (
            {":message-type": "error", ":error-code": "InternalError", ":error-message": "oops"},
            b"",
            {"type": "InternalError", "message": "oops"},
        ),
        ({":message-type": "exception", ":exception-type": "e"}, b"not json", {"type": "e", "message": "not json"}),
        ({":message-type": "event", ":event-type": "validationException"}, b"{}", {"type": "validationException"}),
        (
            {":message-type": "exception", ":exception-type": "modelStreamErrorException"},
            b'{"message": "m", "originalStatusCode": 400}',
            {"type": "modelStreamErrorException", "message": "m", "originalStatusCode": 400},
        ),
    ],
)
def test_every_way_to_end_with_an_error(headers: dict[str, str], payload: bytes, error: dict[str, Any]) -> None:
    found = read_events(frame(payload, b"".join(text_header(*pair) for pair in headers.items())), True)
    assert (found.events, found.error) == ([], error)


ONE = event("messageStart", {"role": "assistant"})


def test_damage_is_unparseable_when_the_answer_is_whole_and_an_end_when_it_was_cut() -> None:
    broken = ONE + ONE[:-1] + b"\x00"
    with pytest.raises(Unparseable, match="damaged: frame 1, at byte"):
        read_events(broken, True)
    assert len(read_events(broken, False).events) == 1


def test_a_stream_without_an_event_is_unparseable_when_it_is_whole() -> None:
    for body in (b"", ONE[:40]):
        with pytest.raises(Unparseable, match="holds no event"):
            read_events(body, True)
        assert read_events(body, False).events == []


@pytest.mark.parametrize("payload", [b"{", b"[]", b"5", b'"text"'])
def test_an_event_that_is_no_object_is_unparseable(payload: bytes) -> None:
    with pytest.raises(Unparseable, match="'metadata' is no JSON"):
        read_events(ONE + event("metadata", payload), True)


@pytest.mark.parametrize("payload", [b"{", b"[]", b"5", b'"text"'])
def test_an_event_that_is_no_object_ends_a_stream_that_was_cut(payload: bytes) -> None:
    """Its checksum is right: what broke it sits behind the framing. What came before stands, nothing after it does."""
    assert read_events(ONE + event("metadata", payload) + ONE, False) == read_events(ONE, False)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"message": "no"}, {"message": "no"}),
        ({"__type": "x", "message": "no"}, {"__type": "x", "message": "no"}),
        ({"error": {"code": 1}}, {"code": 1}),
        ({"error": "no", "message": "m"}, "no"),
        ({"error": "no", "output": {}}, None),
        ({"message": "no", "output": {}}, None),
        ({}, None),
    ],
)
def test_errors_that_came_with_status_200(value: dict[str, Any], error: Any) -> None:
    assert error_in(value) == error
