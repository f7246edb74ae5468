"""Over HTTP: what is kept, and what is answered."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from starlette.testclient import TestClient
from tests.gateway.otlp import SPAN, TRACE, request, span

from stepwell.gateway import GatewayConfig, Scope, Tokens, create_app

CHAT: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]),
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Yo"}], "finish_reason": "stop"}]
    ),
}
PROTOBUF = {"content-type": "application/x-protobuf"}


def post(api: Any, value: Any, **more: Any) -> Any:
    more = {"json": value} | more if value is not None else more
    return api.http.post("/v1/traces", **more)


def in_protobuf(*ids: str) -> bytes:
    """A request with these spans, as exporters send it."""
    message = ExportTraceServiceRequest()
    spans = message.resource_spans.add().scope_spans.add().spans
    for id_ in ids:
        one = spans.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(id_), name="chat")
        for key, value in CHAT.items():
            one.attributes.add(key=key).value.string_value = value
    return message.SerializeToString()


def test_json_in_json_out(api: Any) -> None:
    answer = post(api, request(span(CHAT)))
    assert (answer.status_code, answer.json(), answer.headers["content-type"]) == (200, {}, "application/json")
    [step] = api.steps()
    assert (step.step_id, step.call_id) == (f"{TRACE}.{SPAN}.0", f"{TRACE}.{SPAN}")
    assert step.messages == [{"role": "user", "content": "Hi"}] and step.response == {
        "role": "assistant",
        "content": "Yo",
    }
    assert step.trainable is False and step.untrainable_reason.startswith("text only")
    assert step.prompt_ids is None


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_protobuf_in_protobuf_out(api: Any, coding: str) -> None:
    body = in_protobuf(SPAN, "00f067aa0ba902b7")
    headers = {**PROTOBUF, "content-encoding": coding}
    answer = post(api, None, content=gzip.compress(body) if coding == "gzip" else body, headers=headers)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-protobuf"
    assert not ExportTraceServiceResponse.FromString(answer.content).HasField("partial_success")
    assert [step.step_id for step in api.steps()] == [f"{TRACE}.{SPAN}.0", f"{TRACE}.00f067aa0ba902b7.0"]


def test_the_same_batch_again_changes_nothing(api: Any) -> None:
    for _ in range(2):
        assert post(api, None, content=in_protobuf(SPAN), headers=PROTOBUF).status_code == 200
        assert post(api, request(span(CHAT))).json() == {}
    assert len(api.steps()) == 1


OTHER = "00f067aa0ba902b7"


def answered(text: str, response_id: str | None = "chatcmpl-7", *calls: str) -> dict[str, Any]:
    """The call as the GenAI conventions tell it."""
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}]
    parts += [{"type": "tool_call", "id": "c", "name": name, "arguments": {"a": 1}} for name in calls]
    named = {} if response_id is None else {"gen_ai.response.id": response_id}
    return {**CHAT, "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]), **named}


def told_again(text: str, response_id: str, *calls: str) -> dict[str, Any]:
    """The same in OpenInference's."""
    said = "llm.output_messages.0.message"
    called = {
        f"{said}.tool_calls.{number}.tool_call.function.{name}": value
        for number, call in enumerate(calls)
        for name, value in (("name", call), ("arguments", '{ "a": 1 }'))
    }
    return {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Hi",
        f"{said}.role": "assistant",
        f"{said}.content": text,
        "output.value": json.dumps({"id": response_id}),
        **called,
    }


@pytest.mark.parametrize("together", [True, False])
def test_a_call_of_which_two_instrumentations_tell_is_one_step(api: Any, together: bool) -> None:
    inner = span(answered("Yo", "chatcmpl-7", "look"), parentSpanId=OTHER)
    outer = span(told_again("Yo ", "chatcmpl-7", "look"), span_id=OTHER)
    for spans in [[inner, outer]] if together else [[inner], [outer]]:
        assert post(api, request(*spans)).json() == {}
    assert [step.step_id for step in api.steps()] == [f"{TRACE}.{SPAN}.0"]


@pytest.mark.parametrize(
    ("said", "more"),
    [
        (told_again("Yo", "chatcmpl-8"), {}),
        (told_again("No", "chatcmpl-7"), {}),  # a server that draws its ids from few
        (told_again("Yo", "chatcmpl-7", "look"), {}),
        (told_again("Yo", "chatcmpl-7"), {"traceId": TRACE[::-1]}),
    ],
)
def test_other_calls_are_other_steps(api: Any, said: dict[str, Any], more: dict[str, Any]) -> None:
    post(api, request(span(answered("Yo")), span(said, span_id=OTHER, **more)))
    assert len(api.steps()) == 2


def test_calls_without_an_id_and_choices_of_one_call_are_not_taken_for_each_other(api: Any) -> None:
    two = json.loads(CHAT["gen_ai.output.messages"]) * 2
    choices = {**CHAT, "gen_ai.output.messages": json.dumps(two), "gen_ai.response.id": "chatcmpl-7"}
    post(api, request(span(choices), *(span(CHAT, span_id=id_) for id_ in (OTHER, OTHER[::-1]))))
    assert [step.step_id.rpartition(".")[2] for step in api.steps()] == ["0", "1", "0", "0"]


def test_what_was_declared_when_it_began_and_ended(api: Any) -> None:
    api.http.put("/api/v1/policy", json={"name": "p", "version": 3})
    began = time.time_ns()
    time.sleep(0.01)
    api.http.put("/api/v1/policy", json={"name": "p", "version": 4})
    times: dict[str, Any] = {"startTimeUnixNano": str(began), "endTimeUnixNano": str(time.time_ns())}
    old = span(CHAT, span_id=OTHER[::-1], endTimeUnixNano=str(began), startTimeUnixNano=str(began))
    post(api, request(span(CHAT, **times), span(CHAT, span_id=OTHER), old))
    mixed, before, one = api.steps()
    assert (mixed.policy, mixed.policy_version, mixed.policy_label) == ("p", None, "3..4")
    assert (before.policy, before.policy_version) == (None, None)  # of long ago
    assert (one.policy, one.policy_version) == ("p", 3)
    assert {step.untrainable_reason for step in (mixed, before, one)} == {"text only: a trace reported it"}


def test_what_says_too_little_is_counted_and_its_neighbours_kept(api: Any) -> None:
    silent = span({"gen_ai.operation.name": "chat"}, span_id="00f067aa0ba902b7")
    tool = span({"gen_ai.operation.name": "execute_tool"}, span_id="00f067aa0ba902b8")
    answer = post(api, request(silent, tool, span({}), span(CHAT))).json()["partialSuccess"]
    assert answer["rejectedSpans"] == "1" and "capture the contents" in answer["errorMessage"]
    assert len(api.steps()) == 1

    message = ExportTraceServiceRequest.FromString(in_protobuf(SPAN))
    del message.resource_spans[0].scope_spans[0].spans[0].attributes[1:]
    answer = post(api, None, content=message.SerializeToString(), headers=PROTOBUF)
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_spans == 1 and "capture the contents" in partial.error_message


def test_many_refused_are_told_briefly(api: Any) -> None:
    spans = [span({"gen_ai.operation.name": "chat"}, span_id=f"{n + 1:016x}", name=f"n{n}") for n in range(9)]
    answer = post(api, request(*spans)).json()["partialSuccess"]
    assert (
        answer["rejectedSpans"] == "9"
        and "and 6 more" in answer["errorMessage"]
        and "'n3'" not in answer["errorMessage"]
    )


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"\xff\xff", PROTOBUF),
        (b"nonsense", {"content-type": "application/json"}),
        (b"[]", {"content-type": "application/json"}),
        (b'{"resourceSpans": 3}', {"content-type": "application/json"}),
        (json.dumps(request(span(CHAT, span_id="no hex"))).encode(), {"content-type": "application/json"}),
        (json.dumps(request(span(CHAT, startTimeUnixNano="x"))).encode(), {"content-type": "application/json"}),
        (in_protobuf(SPAN), {**PROTOBUF, "content-encoding": "gzip"}),
    ],
)
def test_what_cannot_be_read_is_400(api: Any, body: bytes, headers: dict[str, str]) -> None:
    answer = post(api, None, content=body, headers=headers)
    assert answer.status_code == 400 and answer.json()["detail"]
    assert api.records() == []


def test_limits(api_of: Any) -> None:
    api = api_of(GatewayConfig(max_batch=2, max_body_bytes=4096))
    three = [span(CHAT, span_id=f"{n + 1:016x}") for n in range(3)]
    assert post(api, None, content=in_protobuf(*(one["spanId"] for one in three)), headers=PROTOBUF).status_code == 413
    bomb = gzip.compress(b"\0" * 100_000)
    assert post(api, None, content=bomb, headers={**PROTOBUF, "content-encoding": "gzip"}).status_code == 413
    others = [span({}, span_id=one["spanId"], attributes=[]) for one in three]
    assert post(api, request(*others)).status_code == 200  # only what becomes steps counts
    assert post(api, None, content=b"x", headers={"content-type": "text/plain"}).status_code == 415
    assert api.records() == []


def test_a_full_spool_is_503_and_the_exporter_comes_again(api_of: Any) -> None:
    api = api_of(max_spool_bytes=1)
    api.http = TestClient(api.app, base_url="http://127.0.0.1:8787", headers=api.http.headers)
    answer = post(api, None, content=in_protobuf(SPAN), headers=PROTOBUF)
    assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize(("scope", "status"), [("ingest", 200), ("read", 403)])
def test_scope_and_project_of_the_token(
    api: Any, warehouse: Any, token: str, tmp_path: Path, scope: Scope, status: int
) -> None:
    tokens = Tokens(tmp_path / "home")
    shown, _ = tokens.create([scope], project="shop")
    app = create_app(writer=api.writer, spool_folder=api.folder, token=token, warehouse=warehouse, tokens=tokens)
    with TestClient(app, base_url="http://127.0.0.1:8787", headers={"authorization": f"Bearer {shown}"}) as http:
        assert http.post("/v1/traces", json=request(span(CHAT))).status_code == status
    said = [step.metadata for step in api.steps()]
    assert [(one["project"], one["otlp"]["service"]) for one in said] == ([("shop", "shop")] if status == 200 else [])


SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "parts", "content", "type", "message", "0", "tool_calls", "id", "name", "function"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_NAMES = [
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.prompt.0.content",
    "gen_ai.prompt.0",
    "gen_ai.completion.0.content",
    "gen_ai.completion.0.tool_calls.0.arguments",
    "gen_ai.response.finish_reasons",
    "gen_ai.tool.definitions",
    "llm.input_messages.0.message.role",
    "llm.input_messages.0.message.content",
    "llm.output_messages.0.message.contents.0.message_content.text",
    "llm.output_messages.0.message",
    "output.value",
    "llm.invocation_parameters",
    "session.id",
    "gen_ai.request.model",
    "llm.tools.0.tool.json_schema",
]


@settings(max_examples=80, deadline=None, database=None, suppress_health_check=SLOW)
@given(
    st.sampled_from([{"gen_ai.operation.name": "chat"}, {"openinference.span.kind": "LLM"}]),
    st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=6),
    st.booleans(),
)
def test_whatever_attributes_say_is_kept_or_refused(
    api: Any, kind: dict[str, str], said: dict[str, Any], written: bool
) -> None:
    values = {name: json.dumps(value) if written else value for name, value in said.items()}
    event = [(name, values) for name in ("gen_ai.choice", "gen_ai.user.message")]
    body = json.dumps(request(span(kind | values, event)))
    answer = post(
        api, None, content=body.encode("utf-8", "surrogatepass"), headers={"content-type": "application/json"}
    )
    assert answer.status_code in (200, 400), answer.text


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=SLOW)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "resourceSpans",
                        "scopeSpans",
                        "spans",
                        "traceId",
                        "spanId",
                        "attributes",
                        "links",
                        "key",
                        "value",
                        "events",
                    ]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=15,
    )
)
def test_whatever_is_sent_is_no_server_error(api: Any, value: Any) -> None:
    assert post(api, None, content=json.dumps(value), headers={"content-type": "application/json"}).status_code in (
        200,
        400,
    )
