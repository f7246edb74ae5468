"""The Responses dialect: which requests are of it, what it asks of engines, and the steps of whole exchanges."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, NoStep, Request, Response, Unparseable, dialect_for, parse
from stepwell.exchange._responses.dialect import OpenAIResponses
from stepwell.exchange.canonical import following_key, prefix_keys
from stepwell.sdk.records import Step

from ..junk import ENDS, nested, never_fails, scalars, words

MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "four", "annotations": [], "logprobs": []}],
}
CALL = {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "add", "arguments": "{}"}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
    "encrypted_content": "gAAA",
}
USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


def answer(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    root = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m-1", "error": None}
    return {**root, "output": list(output), "usage": USAGE, **fields}


def exchange(
    body: bytes | dict[str, Any] | list[dict[str, Any]],
    *,
    asked: bytes | dict[str, Any] | None = None,
    method: str = "POST",
    status: int | None = 200,
    end: End = "complete",
    added: tuple[str, ...] = (),
) -> Exchange:
    """A dict is a plain answer, a list the events of a stream (the frames of a socket), bytes are the body itself."""
    kind = "application/json"
    if isinstance(body, list) and method == "WEBSOCKET":
        raw, kind, status = b"\n".join(json.dumps(event).encode() for event in body), "application/x-ndjson", 101
    elif isinstance(body, list):
        raw, kind = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in body), "text/event-stream"
    else:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = {"model": "m", "input": "2+2?"} if asked is None else asked
    sent = request if isinstance(request, bytes) else json.dumps(request).encode()
    return Exchange(
        id="x",
        dialect="openai.responses",
        request=Request(method, "https://llm/v1/responses", [], sent, 1_000),
        response=Response(status, [("content-type", kind)], raw, end, 2_000),
        added=added,
    )


def step_of(body: Any, **options: Any) -> Step:
    (step,) = parse(exchange(body, **options))
    return step


def events(final: dict[str, Any]) -> list[dict[str, Any]]:
    """A stream that ends in that response."""
    begun = {**final, "status": "in_progress", "output": [], "usage": None}
    items = [
        {"type": f"response.output_item.{verb}", "output_index": index, "item": item}
        for index, item in enumerate(final["output"])
        for verb in ("added", "done")
    ]
    return [
        {"type": "response.created", "response": begun},
        *items,
        {"type": f"response.{final['status']}", "response": final},
    ]


def parts(step: Step) -> list[dict[str, Any]]:
    assert step.response is not None
    content: list[dict[str, Any]] = step.response["content"]
    return content


@pytest.mark.parametrize(
    "path",
    [
        "/v1/responses",
        "/openai/v1/responses",
        "/openai/responses?api-version=preview",
        "/backend-api/codex/responses",
        "/responses",
    ],
)
@pytest.mark.parametrize("method", ["POST", "WEBSOCKET"])
def test_a_generation_is_known_by_its_path(method: str, path: str) -> None:
    found = dialect_for(method, path)
    assert found is not None
    assert found.name == "openai.responses"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/responses/input_tokens"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("GET", "/v1/responses"),
        ("POST", "/v1/conversations"),
    ],
)
def test_what_is_near_a_generation_is_none(method: str, path: str) -> None:
    assert dialect_for(method, path) is None


def test_vllm_is_asked_for_ids_except_where_it_cannot_give_them() -> None:
    flags = OpenAIResponses().flags
    assert flags("vllm", {}) == {"enable_response_messages": True}
    assert flags("vllm", {"enable_response_messages": True}) == {}
    assert flags("vllm", {"background": True}) == {}
    assert flags("sglang", {}) == {}


def test_a_plain_answer_is_a_step() -> None:
    asked = {
        "model": "m",
        "instructions": "be brief",
        "input": [{"role": "user", "content": "2+2?"}],
        "tools": [{"type": "function", "name": "add"}],
        "temperature": 0.5,
        "max_output_tokens": 9,
        "store": False,
        "stream": True,
    }
    step = step_of(answer(THOUGHT, MESSAGE, CALL, service_tier="default"), asked=asked)
    assert step.messages == [
        {"role": "system", "content": [{"type": "text", "text": "be brief"}], "extra": {"field": "instructions"}},
        {"role": "user", "content": [{"type": "text", "text": "2+2?"}]},
    ]
    assert step.tools == asked["tools"]
    assert step.sampling == {"temperature": 0.5, "max_output_tokens": 9}
    assert [(part["type"], part.get("text")) for part in parts(step)] == [
        ("reasoning", "one"),
        ("reasoning", "two"),
        ("text", "four"),
        ("tool_call", None),
    ]
    assert parts(step)[0]["redacted"] == "gAAA"
    assert (step.status, step.finish_reason, step.response_id) == ("ok", "completed", "resp_1")
    assert (step.model_asked, step.model, step.usage) == ("m", "m-1", USAGE)
    assert step.extra == {
        "request": {"store": False, "stream": True},
        "response": {"created_at": 1, "service_tier": "default"},
    }


def test_plain_streamed_and_over_a_socket_it_is_the_same_step() -> None:
    final = answer(THOUGHT, MESSAGE, CALL)
    plain = step_of(final)
    assert step_of(events(final)) == plain
    framed = step_of(
        events(final), method="WEBSOCKET", asked={"type": "response.create", "model": "m", "input": "2+2?"}
    )
    assert framed.extra is not None
    assert framed.extra["request"] == {"type": "response.create"}
    assert framed.model_copy(update={"extra": plain.extra}) == plain


@pytest.mark.parametrize("form", ["root", "inner"])
def test_a_frame_has_its_fields_at_the_root_or_inside(form: str) -> None:
    fields = {"model": "m", "input": "hi", "previous_response_id": "resp_0"}
    frame = {"type": "response.create", **(fields if form == "root" else {"response": fields})}
    step = step_of(events(answer(MESSAGE)), method="WEBSOCKET", asked=frame)
    assert step.continues == "response:resp_0"
    assert OpenAIResponses().request_of(step) == {"type": "response.create", **fields}


def test_a_frame_that_asks_for_nothing_new_is_no_step() -> None:
    with pytest.raises(NoStep, match="a response"):
        step_of([], method="WEBSOCKET", asked={"type": "response.cancel", "input": "stop"})


@pytest.mark.parametrize(
    ("fields", "continues"),
    [
        ({"previous_response_id": "resp_0"}, "response:resp_0"),
        ({"conversation": "conv_1"}, "conversation:conv_1"),
        ({"conversation": {"id": "conv_1"}}, "conversation:conv_1"),
        ({"previous_response_id": None, "conversation": None}, None),
        ({"previous_response_id": ""}, None),
    ],
)
def test_what_the_server_remembers_is_named(fields: dict[str, Any], continues: str | None) -> None:
    step = step_of(answer(MESSAGE), asked={"model": "m", "input": [], **fields})
    assert step.continues == continues
    assert step.messages == []


def test_a_warm_up_is_no_step_and_its_conversation_is_told() -> None:
    asked = {
        "type": "response.create",
        "generate": False,
        "input": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]}],
        "previous_response_id": "resp_0",
    }
    with pytest.raises(NoStep, match="a warm-up") as caught:
        step_of(events(answer()), method="WEBSOCKET", asked=asked)
    context = caught.value.context
    assert context is not None
    assert (context.response_id, context.continues) == ("resp_1", "response:resp_0")
    assert context.tools == [{"type": "custom", "name": "exec"}]
    assert [message["role"] for message in context.messages] == ["developer"]


@pytest.mark.parametrize(
    "body",
    [[], [{"type": "error", "error": {"code": "busy"}}], [*events(answer())[:1], {"type": "error", "code": "busy"}]],
)
def test_a_warm_up_that_failed_leaves_nothing_to_continue(body: list[dict[str, Any]]) -> None:
    with pytest.raises(NoStep) as caught:
        step_of(body, method="WEBSOCKET", asked={"input": [], "generate": False}, end="client_disconnect")
    assert caught.value.context is None


def test_an_answer_that_is_fetched_later_is_no_step() -> None:
    with pytest.raises(NoStep, match="answered later"):
        step_of(answer(status="queued"), asked={"input": "hi", "background": True})
    assert step_of(answer(MESSAGE), asked={"input": "hi", "background": True}).status == "ok"
    assert step_of(answer(status="in_progress")).status == "truncated"


def test_a_background_answer_that_is_streamed_is_a_step() -> None:
    begun = [{"type": "response.queued", "response": answer(status="queued", background=True)}]
    assert (
        step_of(begun, asked={"input": "hi", "background": True}, end="client_disconnect").status == "client_disconnect"
    )
    assert step_of(events(answer(MESSAGE)), asked={"input": "hi", "background": True}).status == "ok"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "truncated"),
        ({"status": "incomplete"}, "truncated"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "ok"),
        ({"status": "failed", "error": {"code": "server_error", "message": "x"}}, "error"),
        ({"status": "failed"}, "error"),
        ({"status": "cancelled"}, "error"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_how_it_ended(fields: dict[str, Any], status: str, streamed: bool) -> None:
    final = answer(MESSAGE, **fields)
    step = step_of(events(final) if streamed else final)
    assert (step.status, step.finish_reason) == (status, fields["status"])
    assert [part["text"] for part in parts(step)] == ["four"]
    assert not step.trainable


def test_an_error_inside_a_stream_keeps_what_was_said() -> None:
    error = {"code": "server_error", "message": "boom"}
    step = step_of([*events(answer(MESSAGE))[:-1], {"type": "error", "sequence_number": 9, **error, "param": None}])
    assert (step.status, step.finish_reason) == ("error", None)
    assert [part["text"] for part in parts(step)] == ["four"]
    assert step.extra is not None
    assert step.extra["error"] == error


def test_an_error_status_is_a_step_with_its_error() -> None:
    step = step_of({"error": {"message": "no such model"}}, status=404)
    assert step.status == "error"
    assert step.extra is not None
    assert step.extra["error"] == {"message": "no such model"}
    assert step.extra["http_status"] == 404


def test_a_stream_cut_at_every_event_keeps_what_there_was() -> None:
    whole = events(answer(THOUGHT, MESSAGE, CALL))
    steps = [step_of(whole[:count], end="upstream_error") for count in range(len(whole))]
    assert {(step.status, step.finish_reason) for step in steps} == {("truncated", None)}
    assert [len(parts(step)) for step in steps] == [0, 0, 2, 2, 3, 3, 4, 4][: len(steps)]
    assert parts(steps[-1]) == parts(step_of(whole))


def test_a_stream_cut_in_mid_event_keeps_what_there_was() -> None:
    body = exchange(events(answer(MESSAGE))).response.body
    for cut in range(0, len(body) - 3, 7):
        assert step_of(body[:cut], end="client_disconnect").status == "client_disconnect"


def test_a_plain_answer_cut_short_keeps_its_text() -> None:
    step = step_of(b'{"id": "resp_1", "out', end="client_disconnect")
    assert step.status == "client_disconnect"
    assert step.extra is not None
    assert step.extra["response"] == {"partial_body": '{"id": "resp_1", "out'}


@pytest.mark.parametrize(
    "asked",
    [
        b"nothing",
        b"[]",
        {"model": "m"},
        {"messages": []},
        {"input": 3},
        {"input": [3]},
        {"input": "x", "tools": 3},
    ],
)
def test_what_is_no_request_of_this_kind_is_unparseable(asked: Any) -> None:
    with pytest.raises(Unparseable):
        step_of(answer(MESSAGE), asked=asked)


@pytest.mark.parametrize(
    "body", [b"hello", b"[]", b"{}", {"output": 3}, {"output": [3]}, b"data: {}\n\n", b"data: 3\n\n"]
)
def test_what_is_no_answer_of_this_kind_is_unparseable(body: Any) -> None:
    with pytest.raises(Unparseable):
        step_of(body)


def test_an_answer_sent_back_compares_equal_whoever_sends_it() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    custom = {
        "type": "custom_tool_call",
        "id": "ct_1",
        "call_id": "c2",
        "name": "exec",
        "input": "ls",
        "status": "completed",
    }
    first = step_of(answer(THOUGHT, search, MESSAGE, CALL, custom))
    results = [
        {"type": "function_call_output", "call_id": "c1", "output": "4"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "a.txt"},
    ]
    verbatim = [THOUGHT, search, MESSAGE, CALL, custom]
    without_ids = [
        search,
        {"role": "assistant", "content": "four"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{ }"},
        {key: custom[key] for key in ("type", "call_id", "name", "input")},
    ]
    assert first.messages is not None
    assert first.response is not None
    keys = prefix_keys(first.messages)
    for history in (verbatim, without_ids):
        later = step_of(answer(MESSAGE), asked={"input": [{"role": "user", "content": "2+2?"}, *history, *results]})
        assert later.messages is not None
        assert [message["role"] for message in later.messages] == ["user", "assistant", "tool", "tool"]
        assert prefix_keys(later.messages)[: len(keys) + 1] == [*keys, following_key(keys, first.response)]


def test_vllms_token_ids_are_taken() -> None:
    raw = {
        "input_messages": [{"type": "raw_message_tokens", "message": "<user>", "tokens": [5, 6, 7]}],
        "output_messages": [{"type": "raw_message_tokens", "message": "four", "tokens": [8, 9]}],
    }
    step = step_of(answer(MESSAGE, **raw), asked={"input": "2+2?", "enable_response_messages": True}, added=("store",))
    assert (step.prompt_ids, step.response_ids, step.logprobs) == ([5, 6, 7], [8, 9], None)
    assert step.trainable
    assert OpenAIResponses().answer_of([step])["output_messages"] == raw["output_messages"]
    assert step_of(events(answer(MESSAGE, **raw))).response_ids == [8, 9]


def test_messages_without_ids_that_only_the_route_asked_for_are_not_kept() -> None:
    harmony = {"input_messages": [{"author": {"role": "user"}}], "output_messages": [{"author": {"role": "assistant"}}]}
    asked = {"input": "2+2?", "enable_response_messages": True}
    step = step_of(answer(MESSAGE, **harmony), asked=asked, added=("enable_response_messages",))
    assert step.extra is not None
    assert step.extra["response"] == {"created_at": 1}
    kept = step_of(answer(MESSAGE, **harmony), asked=asked).extra
    assert kept is not None
    assert kept["response"] == {"created_at": 1, **harmony}


def test_what_a_route_added_is_no_wish_of_the_agent() -> None:
    step = step_of(
        answer(MESSAGE, store=True), asked={"input": "x", "store": True, "seed": 1, "top_k": 2}, added=("store", "seed")
    )
    assert step.sampling == {"top_k": 2}
    assert step.extra is not None
    assert step.extra["added"] == ["store", "seed"]
    assert OpenAIResponses().request_of(step) == {"input": "x", "top_k": 2}
    assert OpenAIResponses().answer_of([step])["store"] is True


KEYS = ["type", "role", "content", "output", "input", "text", "item", "response", "id", "status", "error"]
JSON = nested(scalars(words("", "text", "message", "reasoning", "assistant")), st.sampled_from(KEYS), 4, leaves=12)
BODIES = st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode())


def attempt(asked: bytes, body: bytes, method: str, end: End) -> None:
    status = 101 if method == "WEBSOCKET" else 200
    never_fails(exchange(body, asked=asked, method=method, status=status, end=end), (Unparseable, NoStep))


@settings(max_examples=150, deadline=None)
@given(BODIES, BODIES, st.sampled_from(["POST", "WEBSOCKET"]), ENDS)
def test_no_bytes_at_all_are_a_crash(asked: bytes, body: bytes, method: str, end: End) -> None:
    attempt(asked, body, method, end)
    attempt(b'{"input": "x"}', body, method, end)
    attempt(asked, json.dumps(answer(MESSAGE)).encode(), "POST", end)


@settings(max_examples=150, deadline=None)
@given(st.lists(JSON, max_size=4), ENDS)
def test_no_items_and_no_events_at_all_are_a_crash(values: list[Any], end: End) -> None:
    attempt(json.dumps({"input": values}).encode(), json.dumps(answer(MESSAGE)).encode(), "POST", end)
    attempt(b'{"input": "x"}', json.dumps(answer(*values)).encode(), "POST", end)
    attempt(b'{"input": "x"}', b"\n".join(json.dumps(value).encode() for value in values), "WEBSOCKET", end)


@pytest.mark.parametrize("depth", [200, 900, 5000])
def test_absurd_nesting_is_no_crash(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    for asked, body in (
        (b'{"input": ' + deep + b"}", json.dumps(answer(MESSAGE)).encode()),
        (b'{"input": "x", "tools": ' + deep + b"}", b'{"output": [], "tools": ' + deep + b"}"),
        (b'{"input": "x"}', b'{"output": ' + deep + b"}"),
        (b'{"input": "x"}', b'{"output": [{"type": "function_call", "arguments": ' + deep + b"}]}"),
        (b'{"input": "x"}', b'data: {"type": "response.function_call_arguments.delta", "delta": ' + deep + b"}\n\n"),
    ):
        attempt(asked, body, "POST", "complete")
