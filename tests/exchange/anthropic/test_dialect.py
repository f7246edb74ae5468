"""Messages exchanges as steps: which calls they are, fields, statuses, and that nothing makes them fail."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, Request, Response, Unparseable, dialect_for, dialects, parse
from stepwell.exchange.canonical import following_key, prefix_keys
from stepwell.sdk.records import Step

from .. import junk
from ..junk import ENDS, anything, shaped, words

MODELS = "/v1/projects/p/locations/us-east5/publishers/anthropic/models"


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("POST", "/v1/messages", True),
        ("POST", "/v1/messages?beta=true", True),
        ("POST", "/anthropic/v1/messages", True),
        ("POST", "/api/v1/messages", True),
        ("POST", f"{MODELS}/claude-opus@20250101:rawPredict", True),
        ("POST", f"{MODELS}/claude-opus%4020250101:streamRawPredict?alt=sse", True),
        ("GET", "/v1/messages", False),
        ("POST", "/v1/messages/count_tokens", False),
        ("POST", "/v1/messages/count_tokens?beta=true", False),
        ("POST", "/v1/messages/batches", False),
        ("POST", "/v1/complete", False),
        ("POST", "/v1/threads/t/messages", False),
        ("POST", f"{MODELS}/count-tokens:rawPredict", False),
        ("POST", f"{MODELS}/claude:predict", False),
        ("POST", f"{MODELS}/claude:rawPredict/more", False),
        ("POST", "/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict", False),
        ("GET", f"{MODELS}/claude:rawPredict", False),
    ],
)
def test_which_calls_are_generations(method: str, path: str, found: bool) -> None:
    dialect = dialect_for(method, path)
    assert (dialect is not None and dialect.name == "anthropic.messages") == found


def test_no_engine_is_asked_for_token_ids() -> None:
    assert "anthropic.messages" in dialects()
    dialect = dialect_for("POST", "/v1/messages")
    assert dialect is not None
    assert [dialect.flags(engine, {}) for engine in ("vllm", "sglang", "llamacpp", "anthropic")] == [{}] * 4


ANSWER: dict[str, Any] = {
    "id": "msg",
    "type": "message",
    "role": "assistant",
    "model": "answering",
    "content": [{"type": "text", "text": "ho"}],
    "stop_reason": "stop_sequence",
    "stop_sequence": "END",
    "stop_details": None,
    "container": {"id": "c"},
    "usage": {"input_tokens": 3, "output_tokens": 5},
}
ASKED: dict[str, Any] = {"model": "asked", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def make(
    body: Any,
    *,
    asked: Any = None,
    url: str = "http://h/v1/messages",
    status: int | None = 200,
    end: End = "complete",
    truncated: bool = False,
    kind: str | None = None,
    **fields: Any,
) -> Exchange:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    label = kind or ("text/event-stream" if raw.startswith(b"data:") else "application/json")
    request = asked if isinstance(asked, bytes) else json.dumps(ASKED if asked is None else asked).encode()
    return Exchange(
        id="x",
        dialect="anthropic.messages",
        request=Request("POST", url, [], request, 1_000),
        response=Response(status, [("content-type", label)], raw, end, 2_000, truncated=truncated),
        **fields,
    )


def sse(*events: Any) -> bytes:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


def test_everything_asked_and_answered_is_on_the_step() -> None:
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    asked = {**ASKED, "system": "s", "tools": tools, "temperature": 0.5, "stream": False, "metadata": {"user_id": "u"}}
    (step,) = parse(make(ANSWER, asked=asked, trajectory_id="t", engine="anthropic"))
    assert step == Step(
        step_id="x.0",
        call_id="x",
        trajectory_id="t",
        dialect="anthropic.messages",
        engine="anthropic",
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "s"}]},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        ],
        response={"role": "assistant", "content": [{"type": "text", "text": "ho"}]},
        tools=tools,
        sampling={"max_tokens": 9, "temperature": 0.5},
        finish_reason="stop_sequence",
        usage={"input_tokens": 3, "output_tokens": 5},
        fingerprint="anthropic:answering",
        policy="asked",
        model="answering",
        model_asked="asked",
        response_id="msg",
        trainable=False,
        untrainable_reason="the engine gave no token ids",
        started_at=datetime.fromtimestamp(1e-6, UTC),
        finished_at=datetime.fromtimestamp(2e-6, UTC),
        extra={
            "request": {"stream": False, "metadata": {"user_id": "u"}},
            "response": {"container": {"id": "c"}},
            "choice": {"stop_sequence": "END"},
        },
    )


def test_the_model_of_a_path() -> None:
    asked = {"anthropic_version": "vertex-2023-10-16", "messages": []}
    for written in ("claude@1", "claude%401"):
        (step,) = parse(make(ANSWER, asked=asked, url=f"https://h{MODELS}/{written}:rawPredict?x=y"))
        assert (step.model_asked, step.model) == ("claude@1", "answering")


START = {"type": "message_start", "message": {"id": "msg", "model": "m", "usage": {"input_tokens": 3}}}
PART = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "par"}}
CUT = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
OVER = {"type": "message_stop"}
ERROR = {"type": "error", "error": {"type": "overloaded_error"}}


@pytest.mark.parametrize(
    ("events", "options", "status"),
    [
        ([START, PART], {}, "truncated"),
        ([START, PART], {"end": "client_disconnect"}, "client_disconnect"),
        ([START, PART], {"end": "upstream_error"}, "truncated"),
        ([START, PART], {"end": "aborted"}, "aborted"),
        ([START, PART], {"truncated": True}, "truncated"),
        ([START, PART, END], {}, "ok"),
        ([START, PART, OVER], {}, "ok"),
        ([START, PART, END, OVER], {"end": "client_disconnect"}, "ok"),  # clients hang up after the last word
        ([START, PART, END, OVER], {"end": "aborted"}, "aborted"),
        ([START, PART, CUT, OVER], {}, "truncated"),
        ([START, PART, ERROR], {}, "error"),
        ([START, PART, END, ERROR], {}, "error"),
        ([], {"end": "client_disconnect"}, "client_disconnect"),
        ([], {"end": "upstream_error", "status": None}, "error"),
    ],
)
def test_how_a_stream_ended(events: list[Any], options: dict[str, Any], status: str) -> None:
    (step,) = parse(make(sse(*events), **options))
    assert (step.status, step.trainable) == (status, False)
    assert step.response == {"role": "assistant", "content": [{"type": "text", "text": "par"}] if events else []}


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
def test_an_error_status_is_a_step_with_its_error(status: int) -> None:
    (step,) = parse(make(ERROR, status=status))
    assert (step.status, step.extra) == ("error", {"error": ERROR["error"], "http_status": status})


@pytest.mark.parametrize(
    "asked", [b"", b"{", b"[]", b"5", b"\xff", b'{"messages": ["\\ud800"]}', {}, {"messages": 5}, {"messages": [], "model": 5},
              {"messages": [], "tools": "all"}],
)  # fmt: skip
def test_a_request_that_is_none_is_unparseable(asked: Any) -> None:
    with pytest.raises(Unparseable):
        parse(make(ANSWER, asked=asked))


def test_the_next_turn_continues_what_was_answered() -> None:
    """The stream's raw arguments, and the object that the client sends back, are the same conversation."""
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    pieces = ['{"b": 1.0,', ' "a": "ü"}']
    (first,) = parse(
        make(
            sse(
                START,
                {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
                {"type": "content_block_start", "index": 1, "content_block": call},
                *(
                    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}
                    for piece in pieces
                ),
                {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            )
        )
    )  # fmt: skip
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "done"}]}
    history = [*ASKED["messages"], {"role": "assistant", "content": [{**call, "input": {"a": "ü", "b": 1}}]}, result]
    (second,) = parse(make(ANSWER, asked={**ASKED, "messages": history}))
    assert first.response is not None and first.messages is not None and second.messages is not None
    assert first.response["content"][1]["arguments"] == '{"b": 1.0, "a": "ü"}'
    assert prefix_keys(second.messages)[1] == following_key(prefix_keys(first.messages), first.response)


said = words("text", "tool_use", "tool_result", "thinking", "user", "error", "m")
TYPES = [
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"),
    *("message_stop", "ping", "error", "text_delta", "input_json_delta", "thinking_delta", "signature_delta"),
    *("citations_delta", "compaction_delta", "text", "thinking", "redacted_thinking", "tool_use", "tool_result"),
    *("server_tool_use", "web_search_tool_result", "image", "document", "compaction", "fallback", "message"),
]
KEYS = [
    *("type", "index", "delta", "message", "content_block", "content", "usage", "error", "id", "name", "model", "role"),
    *("text", "thinking", "signature", "partial_json", "citation", "citations", "data", "input", "source", "to"),
    *("stop_reason", "stop_sequence", "stop_details", "tool_use_id", "is_error", "encrypted_content", "container"),
]
values = shaped(anything(said) | st.sampled_from(TYPES), KEYS)
typed = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(KEYS), values, max_size=4),
)
indexes = st.none() | st.integers(0, 2)
deltas = st.builds(
    lambda index, kind, source, text: {
        "type": "content_block_delta", "index": index, "delta": {"type": kind, source: text},
    },
    indexes,
    st.sampled_from([*TYPES[8:14], None, "new_delta"]),
    st.sampled_from(["text", "thinking", "signature", "partial_json", "citation", "content"]),
    said | st.none(),
)  # fmt: skip
starts = st.builds(
    lambda index, block: {"type": "content_block_start", "index": index, "content_block": block}, indexes, typed
)
stops = st.builds(lambda index: {"type": "content_block_stop", "index": index}, indexes)
begun = st.builds(lambda id_: {"type": "message_start", "message": {"id": id_, "model": "m"}}, said)
events = begun | starts | deltas | stops | st.sampled_from([CUT, END, OVER, ERROR, {"type": "ping"}])
turns = st.fixed_dictionaries({"role": said, "content": values | st.lists(typed, max_size=2)})
requests = st.fixed_dictionaries(
    {"messages": st.lists(turns, max_size=2)},
    optional={"system": values, "tools": values, "model": said, "thinking": anything(said)},
)


@settings(max_examples=60, deadline=None)
@given(st.lists(events, max_size=8), ENDS)
def test_any_order_of_events_gives_a_step(made: list[Any], end: End) -> None:
    never_fails(make(sse(*made), end=end, kind="text/event-stream"))


@settings(max_examples=60, deadline=None)
@given(st.lists(typed | values, max_size=4), ENDS)
def test_no_stream_makes_it_fail(made: list[Any], end: End) -> None:
    never_fails(make(sse(*made), end=end, kind="text/event-stream"))


@settings(max_examples=60, deadline=None)
@given(typed | st.fixed_dictionaries({"content": st.lists(typed, max_size=3)}) | values, ENDS)
def test_no_answer_makes_it_fail(made: Any, end: End) -> None:
    never_fails(make(made, end=end))


@settings(max_examples=60, deadline=None)
@given(requests | values)
def test_no_request_makes_it_fail(asked: Any) -> None:
    never_fails(make(ANSWER, asked=json.dumps(asked).encode()))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=60), ENDS, st.sampled_from(["text/event-stream", "application/json"]))
def test_no_bytes_make_it_fail(asked: bytes, answer: bytes, end: End, kind: str) -> None:
    never_fails(make(answer, end=end, kind=kind))
    never_fails(make(ANSWER, asked=asked, end=end))


@pytest.mark.parametrize("depth", [100, 300, 2000])
def test_no_nesting_makes_it_fail(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    block = b'{"type":"tool_use","id":"t","name":"f","input":' + deep + b"}"
    unknown = b'{"type":"new","x":' + deep + b"}"
    for one in (block, unknown):
        never_fails(make(b'{"id":"m","stop_reason":"end_turn","content":[' + one + b"]}"))
        never_fails(make(b'data: {"type":"content_block_start","index":0,"content_block":' + one + b"}\n\n"))
        never_fails(make(ANSWER, asked=b'{"messages":[{"role":"user","content":[' + one + b"]}]}"))


def never_fails(exchange: Exchange) -> None:
    """One step at most."""
    assert len(junk.never_fails(exchange)) <= 1
