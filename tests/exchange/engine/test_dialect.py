"""Exchanges of the engines' own APIs as steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, NoStep, Request, Response, Unparseable, dialect_for, parse
from stepwell.sdk.records import Step

from .. import junk
from ..conftest import sse
from ..junk import ENDS, anything, shaped, words


def make(body: Any, asked: Any = None, *, end: End = "complete", status: int = 200, **more: Any) -> Exchange:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = asked if isinstance(asked, bytes) else json.dumps({"text": "hi"} if asked is None else asked).encode()
    sent = Request("POST", "http://llm/generate", [], request, 1_000)
    return Exchange("x", "engine.generate", sent, Response(status, [], raw, end, 2_000), **more)


def steps(body: Any, asked: Any = None, **options: Any) -> list[Step]:
    return list(parse(make(body, asked, **options)))


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        *(("POST", path, "engine.generate") for path in ("/generate", "/completion", "/inference/v1/generate?x=1")),
        *(("GET", path, None) for path in ("/generate", "/completion")),
        *(
            ("POST", path, None)
            for path in ("/v1/generate", "/generate/x", "/x/completion", "/infill", "/tokenize", "/encode")
        ),
        ("POST", "/api/generate", "ollama.generate"),
        ("POST", "/completions", "openai.completions"),
    ],
)
def test_what_is_a_generation(method: str, path: str, name: str | None) -> None:
    dialect = dialect_for(method, path)
    assert (dialect.name if dialect else None) == name


def sglang(text: str = "ho", ids: tuple[int, ...] = (5, 6), **meta: Any) -> dict[str, Any]:
    info = {"id": "r", "finish_reason": {"type": "stop", "matched": 6}, "prompt_tokens": 2, "completion_tokens": len(ids),
            "cached_tokens": 0, "weight_version": "3", **meta}  # fmt: skip
    return {"text": text, "output_ids": list(ids), "meta_info": info}


def test_sglang() -> None:
    triples = [[-1.0, 5, "h"], [-2.0, 6, None]]
    asked = {"input_ids": [1, 2], "sampling_params": {"temperature": 1, "n": 1}, "return_logprob": True, "rid": "q"}
    (step,) = steps(sglang(output_token_logprobs=triples), asked, engine="sglang", added=("return_logprob",))
    assert (step.prompt_ids, step.response_ids, step.logprobs, step.trainable) == ([1, 2], [5, 6], [-1.0, -2.0], True)
    assert step.messages == [
        {"role": "user", "content": [{"type": "text", "text": "", "extra": {"token_ids": [1, 2]}}]}
    ]
    assert step.response == {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}
    assert (step.policy_version, step.finish_reason, step.response_id) == (3, "stop", "r")
    assert step.usage == {"prompt_tokens": 2, "completion_tokens": 2, "cached_tokens": 0}
    assert step.sampling == {"sampling_params": {"temperature": 1, "n": 1}}
    extra = step.extra or {}
    assert extra["request"] == {"rid": "q", "prompt_field": "input_ids"}
    assert "output_token_logprobs" not in extra["choice"]["meta_info"]
    missing = steps(sglang(completion_tokens=3), asked)
    assert missing[0].untrainable_reason == "2 token ids came for 3 completion tokens"


def test_sglangs_batches_are_in_rows() -> None:
    asked = {"text": ["a", "b"], "sampling_params": {"n": 2}}
    made = steps([sglang(text) for text in ("a1", "a2", "b1", "b2")], asked)
    said = [
        ((step.messages or [])[0]["content"][0]["text"], (step.response or {})["content"][0]["text"]) for step in made
    ]
    assert said == [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")]
    with_ids = sglang()
    with_ids["prompt_token_ids"] = [7]
    assert steps(with_ids)[0].prompt_ids == [7]


@pytest.mark.parametrize("cumulative", [True, False])
def test_sglangs_streams_have_everything_so_far_or_what_is_new(cumulative: bool) -> None:
    texts, ids = ["a", "ü", "c"], [5, 6, 7]
    events = []
    for place in range(3):
        first = 0 if cumulative else place
        reason = {"type": "length", "length": 3} if place == 2 else None
        event = sglang("".join(texts[first : place + 1]), tuple(ids[first : place + 1]), finish_reason=reason,
                       output_token_logprobs=[[-1.0, id_, None] for id_ in ids[first : place + 1]])  # fmt: skip
        event["meta_info"]["completion_tokens"] = place + 1
        events.append(event)
    body = sse(*events)
    (step,) = steps(body, {"input_ids": [1]})
    assert (step.response or {})["content"][0]["text"] == "aüc"
    assert (step.response_ids, step.logprobs) == (ids, [-1.0] * 3)
    assert (step.status, step.finish_reason) == ("truncated", "length")
    assert steps(body.replace(b"\n", b"\r\n"), {"input_ids": [1]}) == [step]
    (cut,) = steps(sse(*events[:2], done=False) + b"data: {", {"input_ids": [1]}, end="client_disconnect")
    assert (cut.status, cut.response_ids, (cut.response or {})["content"][0]["text"]) == (
        "client_disconnect",
        [5, 6],
        "aü",
    )
    for event in events:
        del event["output_ids"], event["meta_info"]["output_token_logprobs"]
    assert (steps(sse(*events))[0].response or {})["content"][0]["text"] == "aüc"


def test_logprobs_of_an_incremental_stream_that_are_sent_whole() -> None:
    first, last = sglang("a", (5,), output_token_logprobs=[[-1.0, 5, None]]), sglang("b", (6,))
    last["meta_info"] |= {"completion_tokens": 2, "output_token_logprobs": [[-1.0, 5, None], [-2.0, 6, None]]}
    (step,) = steps(sse(first, last), {"input_ids": [1]})
    assert (step.response_ids, step.logprobs, step.trainable) == ([5, 6], [-1.0, -2.0], True)


def test_an_abort_is_a_cut_and_one_with_a_status_a_failure() -> None:
    (resumed,) = steps(sglang(finish_reason={"type": "abort", "message": "paused"}))
    assert (resumed.status, resumed.finish_reason) == ("truncated", "abort")
    (failed,) = steps(sglang(finish_reason={"type": "abort", "status_code": 400, "err_type": "BadRequestError"}))
    assert failed.status == "error"
    (several,) = steps(sglang(weight_versions=["3", "4"]), {"input_ids": [1]})
    assert (several.policy_label, several.trainable) == ("3..4", False)


def test_llama_cpp() -> None:
    probabilities = [{"id": 5, "token": "h", "logprob": -1.0, "top_logprobs": []}, {"id": 6, "logprob": -2.0}]
    end = {"content": "", "tokens": [], "stop": True, "stop_type": "eos", "tokens_predicted": 2, "tokens_evaluated": 1,
           "model": "q.gguf", "truncated": False, "timings": {"predicted_ms": 1}}  # fmt: skip
    streamed = [
        {"index": 0, "content": "h", "tokens": [5], "stop": False, "completion_probabilities": probabilities[:1]},
        {"index": 0, "content": "o", "tokens": [6], "stop": False, "completion_probabilities": probabilities[1:]},
        end,
    ]
    asked = {"prompt": [1], "n_predict": 5, "return_tokens": True}
    (step,) = steps(sse(*streamed, done=False), asked)
    plain = {**end, "content": "ho", "tokens": [5, 6], "completion_probabilities": probabilities}
    assert steps(plain, asked) == [step]
    assert (step.prompt_ids, step.response_ids, step.logprobs) == ([1], [5, 6], [-1.0, -2.0])
    assert (step.status, step.finish_reason, step.model) == ("ok", "eos", "q.gguf")
    assert step.usage == {"tokens_predicted": 2, "tokens_evaluated": 1}
    (cut,) = steps({**plain, "stop_type": "limit"}, asked)
    (older,) = steps({"content": "ho", "stop": True, "stopped_limit": True, "stopped_eos": False}, {"prompt": "a"})
    assert (cut.status, older.status, older.finish_reason) == ("truncated", "truncated", "limit")
    (text,) = steps(plain, {"prompt": "hi"})
    assert text.response_ids is None and (text.extra or {})["choice"]["tokens"] == [5, 6]


def test_vllm() -> None:
    logprobs = {"content": [{"token": "token_id:5", "logprob": -1.0}, {"token": "token_id:6", "logprob": -2.0}]}
    choice = {"index": 0, "token_ids": [5, 6], "logprobs": logprobs, "finish_reason": "stop", "routed_experts": "k05V",
              "weight_versions": [{"version": "9", "start": 0, "end": 2}]}  # fmt: skip
    body = {"request_id": "r", "choices": [choice, {**choice, "index": 1}], "prompt_logprobs": None}
    asked = {"token_ids": [1, 2], "sampling_params": {"logprobs": 0}, "model": "m"}
    first, second = steps(body, asked)
    assert (first.prompt_ids, first.response_ids, first.logprobs) == ([1, 2], [5, 6], [-1.0, -2.0])
    assert (second.step_id, second.policy_version, second.response_id) == ("x.1", 9, "r")
    assert (first.extra or {})["choice"]["routed_experts"] == "k05V"
    pieces = [{"request_id": "r", "choices": [{"index": 0, "token_ids": [id_], "logprobs": {"content": [entry]}}]}
              for id_, entry in zip([5, 6], logprobs["content"], strict=True)]  # fmt: skip
    last = {"request_id": "r", "choices": [{"index": 0, "token_ids": [], "finish_reason": "stop"}]}
    usage = {"request_id": "r", "choices": [], "usage": {"completion_tokens": 2}}
    (step,) = steps(sse(*pieces, last, usage), asked)
    assert (step.response_ids, step.logprobs, step.status) == ([5, 6], [-1.0, -2.0], "ok")
    assert step.usage == {"completion_tokens": 2}


def test_a_prompt_that_is_only_read_is_no_step() -> None:
    for asked in ({"text": "a", "sampling_params": {"max_new_tokens": 0}}, {"prompt": "a", "n_predict": 0}):
        with pytest.raises(NoStep):
            steps(sglang("", ()), asked)


def test_what_came_before_something_absurd_stands_where_the_stream_was_cut() -> None:
    for data in (5, {"x": 1}, {"choices": [5]}):
        body = sse(sglang("a", (5,), finish_reason=None), data, done=False)
        (step,) = steps(body, end="client_disconnect")
        assert (step.response or {})["content"][0]["text"] == "a"
        with pytest.raises(Unparseable):
            steps(body)


def test_errors() -> None:
    assert steps({"error": {"message": "no"}}, status=400)[0].extra == {
        "request": {"prompt_field": "text"}, "error": {"message": "no"}, "http_status": 400}  # fmt: skip
    assert steps({"error": {"message": "no"}})[0].status == "error"
    (step,) = steps(sse(sglang("par", (5,), finish_reason=None), {"error": {"message": "died"}}))
    assert step.status == "error" and (step.response or {})["content"][0]["text"] == "par"
    (step,) = steps(sse(sglang("par", (5,), finish_reason=None), done=False) + b"event: error\ndata: out of memory\n\n")
    assert (step.status, (step.response or {})["content"][0]["text"], step.trainable) == ("error", "par", False)
    assert (step.extra or {})["error"] == "out of memory"
    for nothing in (
        b"",
        b"[]",
        b"{}",
        b"5",
        b"<html>",
        b"data: 5\n\n",
        b"data: [DONE]\n\n",
        b'{"text": 5}',
        b"data: {}\n\n",
    ):
        with pytest.raises(Unparseable):
            steps(nothing)
    assert steps(b"", end="upstream_error")[0].status == "truncated"
    assert (steps(b'{"text": "a', end="upstream_error")[0].extra or {})["response"] == {"partial_body": '{"text": "a'}


@pytest.mark.parametrize(
    ("engine", "body", "flags"),
    [
        ("sglang", {}, {"return_logprob": True, "return_prompt_token_ids": True}),
        ("sglang", {"return_logprob": True, "return_prompt_token_ids": True}, {}),
        ("llamacpp", {"n_probs": 5}, {"return_tokens": True}),
        ("vllm", {}, {}),
    ],
)
def test_flags_are_what_the_agent_has_not_set(engine: str, body: dict[str, Any], flags: dict[str, Any]) -> None:
    dialect = dialect_for("POST", "/generate")
    assert dialect is not None and dialect.flags(engine, body) == flags


said = words()
FIELDS = ["index", "text", "content", "output_ids", "tokens", "token_ids", "prompt_token_ids", "meta_info", "logprobs",
          "finish_reason", "completion_tokens", "output_token_logprobs", "weight_version", "completion_probabilities",
          "stop", "stop_type", "choices", "usage", "id", "model", "error", "type", "sampling_params", "n",
          "max_new_tokens"]  # fmt: skip
values = shaped(anything(said), FIELDS, 6)
output = st.dictionaries(st.sampled_from(FIELDS), values, max_size=7)
replies = (
    output | st.lists(output, max_size=3) | st.fixed_dictionaries({"choices": st.lists(output, max_size=3)}) | values
)
prompts = said | st.lists(said | st.lists(st.integers(0, 9), max_size=2), max_size=3) | values
requests = st.dictionaries(st.sampled_from(["text", "prompt", "input_ids", "token_ids"]), prompts, max_size=2) | output


@settings(max_examples=80)
@given(st.lists(replies, min_size=1, max_size=3), requests, ENDS, st.booleans())
def test_no_json_makes_it_fail(made: list[Any], asked: Any, end: End, streamed: bool) -> None:
    body = sse(*made, done=False) if streamed else json.dumps(made[0]).encode()
    never_fails(make(body, json.dumps(asked).encode(), end=end))


@given(st.binary(max_size=60), st.binary(max_size=30), ENDS)
def test_no_bytes_make_it_fail(body: bytes, asked: bytes, end: End) -> None:
    never_fails(make(body, asked, end=end))
    never_fails(make(body, end=end))


def never_fails(exchange: Exchange) -> None:
    junk.never_fails(exchange, (Unparseable, NoStep))
