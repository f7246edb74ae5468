"""Chat exchanges as steps: identity, fields, statuses, and what keeps a step from training."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, Request, Response, Unparseable, dialect_for, parse
from stepwell.sdk.records import Step

from ..junk import ENDS, anything, never_fails, shaped, words

Steps = Callable[..., Sequence[Step]]
Streamed = Callable[..., Step]
Stream = Callable[..., bytes]


def answer(*choices: dict[str, Any], **root: Any) -> dict[str, Any]:
    made = [{"index": number, "message": {"role": "assistant", "content": "ho"}, "finish_reason": "stop", **choice}
            for number, choice in enumerate(choices or ({},))]  # fmt: skip
    return {"id": "r", "model": "answering", "choices": made, **root}


def test_everything_asked_and_answered_is_on_the_step(steps: Steps) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    asked = {"temperature": 0.5, "tools": tools, "stream": False, "user": "u", "return_token_ids": True, "n": 1}
    usage = {"completion_tokens": 2, "prompt_tokens": 1}
    body = answer(
        {"token_ids": [5, 6], "logprobs": {"content": [{"logprob": -1}, {"logprob": -2}]}, "stop_reason": 6,
         "weight_versions": [{"version": "12", "start": 0, "end": 2}]},
        prompt_token_ids=[1], usage=usage, system_fingerprint="fp",
    )  # fmt: skip
    (step,) = steps(body, asked=asked, trajectory_id="t", engine="vllm", added=("return_token_ids",))
    assert step == Step(
        step_id="x.0",
        call_id="x",
        trajectory_id="t",
        dialect="openai.chat",
        engine="vllm",
        messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        response={"role": "assistant", "content": [{"type": "text", "text": "ho"}]},
        tools=tools,
        sampling={"temperature": 0.5, "n": 1},
        finish_reason="stop",
        usage=usage,
        prompt_ids=[1],
        response_ids=[5, 6],
        logprobs=[-1.0, -2.0],
        fingerprint="vllm:answering",
        policy="asked",
        policy_version=12,
        policy_label="12",
        model="answering",
        model_asked="asked",
        response_id="r",
        started_at=datetime.fromtimestamp(1e-6, UTC),
        finished_at=datetime.fromtimestamp(2e-6, UTC),
        extra={
            "request": {"stream": False, "user": "u"},
            "response": {"system_fingerprint": "fp"},
            "choice": {"stop_reason": 6, "weight_versions": [{"version": "12", "start": 0, "end": 2}]},
            "added": ["return_token_ids"],
        },
    )
    assert step.trainable


def test_every_choice_is_a_step_of_one_call(steps: Steps) -> None:
    first, second = steps(
        answer({"message": {"content": "a"}}, {"message": {"content": "b"}, "finish_reason": "length"})
    )
    assert (first.step_id, second.step_id, first.call_id, second.call_id) == ("x.0", "x.1", "x", "x")
    assert (first.status, second.status) == ("ok", "truncated")
    usage = {"completion_tokens": 4}  # of both together: of neither alone
    both = steps(answer({"token_ids": [1, 2]}, {"token_ids": [3, 4]}, prompt_token_ids=[9], usage=usage))
    assert [step.untrainable_reason for step in both] == [None, None]


def test_a_filtered_choice_without_a_message_is_a_step(steps: Steps) -> None:
    (step,) = steps(answer({"message": None, "finish_reason": "content_filter"}))
    assert (step.response, step.finish_reason) == ({"role": "assistant", "content": []}, "content_filter")


def test_a_message_without_a_role_is_the_assistants(steps: Steps) -> None:
    (step,) = steps(answer({"message": {"role": None, "content": "a"}}))
    assert step.response == {"role": "assistant", "content": [{"type": "text", "text": "a"}]}


def test_reasoning_and_calls_of_a_stream(streamed: Streamed) -> None:
    step = streamed(
        {"role": "assistant", "reasoning": "h"},
        {"reasoning": "m"},
        {"content": "so"},
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
    )
    assert step.response is not None and step.status == "ok"
    assert step.response["content"] == [
        {"type": "reasoning", "text": "hm", "extra": {"name": "reasoning"}},
        {"type": "text", "text": "so"},
        {"type": "tool_call", "id": "a", "name": "f", "arguments": "{}"},
    ]


OPEN = {"id": "r", "choices": [{"index": 0, "delta": {"content": "par"}}]}
OVER = {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    ("chunks", "options", "status"),
    [
        ([OPEN], {}, "truncated"),
        ([OPEN], {"end": "client_disconnect"}, "client_disconnect"),
        ([OPEN], {"end": "upstream_error"}, "truncated"),
        ([OPEN], {"end": "aborted"}, "aborted"),
        ([OPEN], {"truncated": True}, "truncated"),
        ([OPEN], {"status": 500}, "error"),
        ([OPEN, OVER], {}, "ok"),
        ([OPEN, OVER], {"end": "client_disconnect"}, "ok"),  # after the last word: SDKs close without reading [DONE]
        ([OPEN, OVER], {"end": "upstream_error"}, "ok"),
        ([OPEN, OVER], {"end": "aborted"}, "aborted"),
        ([OPEN, OVER], {"truncated": True}, "truncated"),
        ([OPEN, {"error": {"code": 400}}], {}, "error"),
        ([], {"end": "client_disconnect"}, "client_disconnect"),
        ([], {"end": "upstream_error"}, "truncated"),
        ([], {"end": "upstream_error", "status": None}, "error"),
        ([], {"end": "client_disconnect", "status": None}, "client_disconnect"),
        ([], {"end": "aborted", "status": None}, "aborted"),
    ],
)
def test_how_a_stream_ended(
    chunks: list[Any], options: dict[str, Any], status: str, steps: Steps, stream: Stream
) -> None:
    (step,) = steps(stream(*chunks, done=False), **options)
    assert step.status == status
    assert (step.untrainable_reason == "the engine gave no token ids") == (status == "ok")
    assert not step.trainable


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503, 529])
def test_an_error_status_is_a_step_with_its_error(status: int, steps: Steps) -> None:
    (step,) = steps({"error": {"message": "no"}}, status=status)
    assert (step.status, step.trainable) == ("error", False)
    assert step.extra == {"error": {"message": "no"}, "http_status": status}
    assert step.messages and str(status) in (step.untrainable_reason or "")


def test_errors_in_answers_of_status_200(steps: Steps, stream: Stream) -> None:
    inside = answer({"finish_reason": "error", "error": {"code": 502}})
    said = {"id": "r", "error": {"code": 1}, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]}
    for body in ({"error": {"code": 1}}, inside, stream(said), answer({"finish_reason": "error"})):
        (step,) = steps(body)
        assert (step.status, step.trainable) == ("error", False)


def test_no_answer_at_all_says_why(steps: Steps) -> None:
    (step,) = steps(None, status=None, end="upstream_error", error="connection refused")
    assert step.status == "error" and "connection refused" in (step.untrainable_reason or "")
    assert step.extra == {"transfer_error": "connection refused"}


def test_a_choice_that_ended_is_whole_beside_one_that_was_cut(steps: Steps, stream: Stream) -> None:
    other = {"id": "r", "choices": [{"index": 1, "delta": {"content": "b"}}]}
    first, second = steps(stream(OPEN, other, OVER, done=False), end="client_disconnect")
    assert (first.status, second.status) == ("ok", "client_disconnect")


def test_ids_that_do_not_fit_keep_a_step_from_training(steps: Steps) -> None:
    body = answer({"token_ids": [5, 6]}, prompt_token_ids=[1], usage={"completion_tokens": 3})
    (step,) = steps(body)
    assert (step.response_ids, step.trainable) == ([5, 6], False)
    assert step.untrainable_reason == "2 token ids came for 3 completion tokens"
    mixed = answer({"token_ids": [5], "weight_versions": [{"version": "1"}, {"version": "2"}]}, prompt_token_ids=[1])
    (step,) = steps(mixed)
    assert (step.policy_version, step.policy_label, step.trainable) == (None, "1..2", False)
    assert "several policy versions" in (step.untrainable_reason or "")


def test_sglangs_ids_come_late_and_beside_the_choices(steps: Steps, stream: Stream) -> None:
    def piece(index: int, text: str, **more: Any) -> dict[str, Any]:
        return {"id": "r", "choices": [{"index": index, "delta": {"content": text}, **more}]}

    logprobs = {"content": [{"token": "a", "logprob": -1.0}]}
    said = [piece(1, "b", finish_reason="stop"), piece(0, "a", finish_reason="stop", logprobs=logprobs)]
    details = {"choices": [], "sglext": {"cached_tokens_details": {"device": 1}}}
    ids = {"choices": [], "sglext": {"input_ids": [1, 2], "output_ids": [[5], [6, 7]]}}
    usage = {"choices": [], "usage": {"completion_tokens": 3}}
    framed = b"event: sglext_ids\n" + stream(ids, done=False)
    plain = stream(ids, done=False)
    for late in (framed, plain):
        body = stream(*said, details, done=False) + late + stream(usage)
        first, second = steps(body)
        assert (first.prompt_ids, first.response_ids, first.logprobs) == ([1, 2], [5], [-1.0])
        assert (second.prompt_ids, second.response_ids, second.logprobs) == ([1, 2], [6, 7], None)
        assert first.trainable and second.trainable
        assert first.extra == {"response": {"sglext": {"cached_tokens_details": {"device": 1}}}}
    (cut,) = steps(stream(said[0], done=False) + framed[:-9], end="client_disconnect")
    assert (cut.response_ids, cut.status) == (None, "ok")


def test_usage_is_found_where_moonshot_and_groq_put_it(steps: Steps, stream: Stream) -> None:
    usage = {"completion_tokens": 2}
    ended: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
    for last in (
        {"choices": [{**ended, "usage": usage}]},
        {"choices": [ended], "x_groq": {"id": "q", "usage": usage}},
        {"choices": [ended], "usage": usage},
    ):
        (step,) = steps(stream(OPEN, last))
        assert step.usage == usage


def test_a_stream_whose_ids_were_swallowed_is_not_trained_on(steps: Steps, stream: Stream) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    first = {"prompt_token_ids": [1], "choices": [{"index": 0, "delta": {"content": "a"}, "token_ids": [5]}]}
    last = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    (step,) = steps(stream(first, last, {"choices": [], "usage": {"completion_tokens": 4}}))
    assert (step.response_ids, step.logprobs, step.trainable) == ([5], None, False)
    assert step.untrainable_reason == "1 token ids came for 4 completion tokens"


def test_what_engines_say_beside_the_ids_is_kept(steps: Steps) -> None:
    meta = {"weight_version": "7", "output_token_logprobs": [[-1.0, 5, "a"], [-2.0, 6, None]], "cached_tokens": 0}
    body = answer(
        {"response_token_ids": [5, 6], "prompt_token_ids": [1], "meta_info": meta, "routed_experts": "k05V",
         "sampling_mask": [[1]]}
    )  # fmt: skip
    (step,) = steps(body)
    assert (step.policy_version, step.response_ids, step.logprobs) == (7, [5, 6], [-1.0, -2.0])
    assert step.extra == {"choice": {"meta_info": meta, "routed_experts": "k05V", "sampling_mask": [[1]]}}


def test_ids_and_logprobs_that_no_field_takes_are_kept(steps: Steps) -> None:
    logprobs = {"content": [{"token": "a", "logprob": -1.0, "top_logprobs": []}]}
    (step,) = steps(answer({"token_ids": [5], "logprobs": logprobs}))
    assert (step.response_ids, step.extra) == (None, {"choice": {"token_ids": [5], "logprobs": logprobs}})
    (step,) = steps(answer({"logprobs": logprobs}, prompt_token_ids=[1]))
    assert step.extra == {"response": {"prompt_token_ids": [1]}, "choice": {"logprobs": logprobs}}


@pytest.mark.parametrize(
    ("path", "model", "asked"),
    [
        ("/openai/deployments/gpt%2D4o/chat/completions?api-version=1", None, "gpt-4o"),
        ("/openai/deployments/gpt/chat/completions", "own", "own"),
        ("/v1/chat/completions?x=/deployments/no/", None, None),
        ("[/chat/completions", None, None),
    ],
)
def test_azures_deployment_is_the_model_asked_where_the_body_names_none(
    path: str, model: str | None, asked: str | None, exchange: Callable[..., Exchange]
) -> None:
    made = exchange(answer(), asked={"model": model})
    (step,) = parse(replace(made, request=replace(made.request, url=f"https://x.openai.azure.com{path}")))
    assert step.model_asked == asked


def test_an_answer_that_the_server_aborted_is_not_whole(steps: Steps) -> None:
    (step,) = steps(answer({"finish_reason": "abort"}))
    assert (step.status, step.trainable) == ("truncated", False)


def test_an_object_under_a_streams_label_is_a_plain_answer(steps: Steps) -> None:
    assert steps(json.dumps(answer()).encode(), content_type="text/event-stream") == steps(answer())


@pytest.mark.parametrize(
    "asked",
    [
        {"messages": "hi"},
        {"messages": None},
        {"messages": [5]},
        {"messages": [{}]},
        {"messages": [{"role": "user", "content": 5}]},
        {"messages": [{"role": "assistant", "tool_calls": 5}]},
        {"messages": [{"role": "user", "content": [{"type": []}]}], "tools": 5},
        {"model": 5},
        {"tools": "all"},
    ],
)
def test_a_request_that_is_none_is_unparseable(asked: dict[str, Any], steps: Steps) -> None:
    with pytest.raises(Unparseable):
        steps(answer(), asked=asked)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"5", b"\xff", b'{"messages": [{"role": "user", "content": "\\ud800"}]}']
)
def test_so_is_one_that_is_no_json(body: bytes) -> None:
    request = Request("POST", "http://x/v1/chat/completions", [], body, 1)
    with pytest.raises(Unparseable, match="request"):
        parse(Exchange("x", "openai.chat", request, Response(200, [], json.dumps(answer()).encode(), "complete", 2)))


@pytest.mark.parametrize("root", [{"id": 5}, {"model": "x" * 999}, {"usage": [1]}, {"x": float("inf")}])
def test_an_answer_that_no_step_can_hold_is_unparseable(root: dict[str, Any], steps: Steps) -> None:
    with pytest.raises(Unparseable):
        steps(answer(**root))


def test_a_counter_of_any_size_is_kept(steps: Steps) -> None:
    (step,) = steps(answer(usage={"n": 2**80}))
    assert step.usage == {"n": 2**80}
    assert Step.model_validate_json(step.model_dump_json()) == step


@pytest.mark.parametrize(
    ("engine", "body", "flags"),
    [
        ("vllm", {}, {"return_token_ids": True, "logprobs": True}),
        ("vllm", {"logprobs": True, "stream": True}, {"return_token_ids": True}),
        ("vllm", {"logprobs": False, "return_token_ids": True}, {"logprobs": True}),
        ("sglang", {}, {"return_token_ids": True, "logprobs": True}),
        (
            "sglang",
            {"stream": True, "logprobs": True},
            {"x-sglext-return-input-ids": "1", "x-sglext-return-output-ids": "1"},
        ),
        ("llamacpp", {"stream": True}, {"logprobs": True}),
        ("openai", {}, {}),
    ],
)
def test_flags_are_what_the_agent_has_not_set(engine: str, body: dict[str, Any], flags: dict[str, Any]) -> None:
    dialect = dialect_for("POST", "/v1/chat/completions")
    assert dialect is not None and dialect.flags(engine, body) == flags


said = words("assistant", "stop", "error", "function")
KEYS = [
    "index", "delta", "message", "finish_reason", "logprobs", "token_ids", "weight_versions", "content", "tool_calls",
    "function_call", "reasoning", "reasoning_details", "refusal", "audio", "annotations", "role", "id", "type",
    "function", "name", "arguments", "input", "custom", "choices", "model", "usage", "prompt_token_ids", "error",
    "object", "metadata", "text", "thinking", "completion_tokens", "logprob", "token", "version", "weight_version",
    "meta_info", "extra",
]  # fmt: skip
values = shaped(anything(said), KEYS)
pieces = st.dictionaries(st.sampled_from(KEYS), values, max_size=5)
chunks = st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({"delta": pieces}) | pieces, max_size=2) | values}
)


def make(body: bytes, end: End, kind: str) -> Exchange:
    request = Request("POST", "http://x/v1/chat/completions", [], b'{"messages": []}', 1)
    return Exchange("x", "openai.chat", request, Response(200, [("content-type", kind)], body, end, 2))


@given(st.lists(chunks | pieces, max_size=4), ENDS)
def test_no_stream_makes_it_fail(made: list[Any], end: End) -> None:
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in made).encode()
    never_fails(make(body, end, "text/event-stream"))


@given(
    st.fixed_dictionaries({"choices": st.lists(st.fixed_dictionaries({"message": pieces}) | pieces, max_size=2)})
    | pieces,
    ENDS,
)
def test_no_answer_makes_it_fail(made: Any, end: End) -> None:
    never_fails(make(json.dumps(made).encode(), end, "application/json"))


@given(st.binary(max_size=60), ENDS, st.sampled_from(["text/event-stream", "application/json"]))
def test_no_bytes_make_it_fail(body: bytes, end: End, kind: str) -> None:
    never_fails(make(body, end, kind))
