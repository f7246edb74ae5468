"""Exchanges of the completions API as steps: prompts, choices, ids."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, Request, Response, Unparseable, dialect_for, parse
from stepwell.exchange._completions.dialect import OpenAICompletions
from stepwell.sdk.records import Step

from ..conftest import sse
from ..junk import ENDS, anything, never_fails, shaped, words


def answer(*choices: dict[str, Any], **root: Any) -> dict[str, Any]:
    made = [{"index": number, "text": "ho", "finish_reason": "stop", **choice}
            for number, choice in enumerate(choices or ({},))]  # fmt: skip
    return {"id": "r", "object": "text_completion", "model": "m", "choices": made, **root}


def make(
    body: bytes | dict[str, Any], asked: Any = None, *, end: End = "complete", status: int = 200, **more: Any
) -> Exchange:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = (
        asked if isinstance(asked, bytes) else json.dumps({"model": "asked", "prompt": "hi", **(asked or {})}).encode()
    )
    sent = Request("POST", "http://llm/v1/completions", [], request, 1_000)
    return Exchange("x", "openai.completions", sent, Response(status, [], raw, end, 2_000), **more)


def steps(body: bytes | dict[str, Any], asked: dict[str, Any] | None = None, **options: Any) -> list[Step]:
    return list(parse(make(body, asked, **options)))


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v1/completions", "openai.completions"),
        ("POST", "/openai/deployments/d/completions?api-version=1", "openai.completions"),
        ("POST", "/v1/chat/completions", "openai.chat"),
        ("POST", "/v1/agents/completions", "openai.chat"),
        ("POST", "/v1/fim/completions", "openai.completions"),
        ("GET", "/v1/completions", None),
        ("POST", "/v1/completions/1", None),
    ],
)
def test_what_is_a_completion(method: str, path: str, name: str | None) -> None:
    dialect = dialect_for(method, path)
    assert (dialect.name if dialect else None) == name


def test_chats_own_path_is_not_ours() -> None:
    assert not OpenAICompletions().matches("POST", "/v1/chat/completions")
    assert OpenAICompletions().matches("POST", "/v1/completions")


def test_everything_asked_and_answered_is_on_the_step() -> None:
    logprobs = {"tokens": ["h", "o"], "token_logprobs": [-1.0, -2.0], "text_offset": [2, 3], "top_logprobs": None}
    body = answer(
        {"prompt_token_ids": [1], "token_ids": [5, 6], "logprobs": logprobs, "stop_reason": 6},
        usage={"prompt_tokens": 1, "completion_tokens": 2}, created=1,
    )  # fmt: skip
    asked = {"suffix": "end", "temperature": 0.5, "logprobs": 1, "stream": False, "user": "u", "return_token_ids": True}
    (step,) = steps(body, asked, engine="vllm", trajectory_id="t", added=("return_token_ids",))
    assert step.messages == [
        {"role": "user", "content": [{"type": "text", "text": "hi"},
                                     {"type": "text", "text": "end", "extra": {"field": "suffix"}}]}
    ]  # fmt: skip
    assert step.response == {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}
    assert (step.prompt_ids, step.response_ids, step.logprobs, step.trainable) == ([1], [5, 6], [-1.0, -2.0], True)
    assert step.sampling == {"temperature": 0.5, "logprobs": 1}
    assert (step.model_asked, step.model, step.response_id, step.finish_reason) == ("asked", "m", "r", "stop")
    assert step.extra == {
        "request": {"stream": False, "user": "u"},
        "response": {"created": 1},
        "choice": {"stop_reason": 6, "logprobs": logprobs},
        "added": ["return_token_ids"],
    }


def test_azures_deployment_is_the_model_asked_where_the_body_names_none() -> None:
    made = make(answer(), {"model": None})
    url = "https://x.openai.azure.com/openai/deployments/gpt/completions?api-version=1"
    (step,) = parse(replace(made, request=replace(made.request, url=url)))
    assert step.model_asked == "gpt"


def test_each_choice_has_the_prompt_it_answers() -> None:
    texts = [{"text": text} for text in ("a1", "a2", "b1", "b2")]
    made = steps(answer(*texts), {"prompt": ["a", "b"], "n": 2})
    assert [step.step_id for step in made] == ["x.0", "x.1", "x.2", "x.3"]
    said = [(step.messages or [])[0]["content"][0]["text"] for step in made]
    assert said == ["a", "a", "b", "b"]
    assert [(step.extra or {})["request"] for step in made] == [{"prompt_index": place} for place in (0, 0, 1, 1)]


def test_a_prompt_whose_choices_never_came_is_a_step_all_the_same() -> None:
    chunk = {"id": "r", "choices": [{"index": 1, "text": "b", "finish_reason": None}]}
    first, second, third = steps(sse(chunk, done=False), {"prompt": ["a", "b", "c"]}, end="client_disconnect")
    assert [step.step_id for step in (first, second, third)] == ["x.0", "x.1", "x.2"]
    assert {step.status for step in (first, second, third)} == {"client_disconnect"}
    assert first.response == {"role": "assistant", "content": []} and second.response is not None
    (failed, other) = steps({"error": {"code": 1}}, {"prompt": ["a", "b"]}, status=400)
    assert (failed.status, other.status) == ("error", "error")


def test_a_choice_of_no_prompt_is_unparseable() -> None:
    with pytest.raises(Unparseable, match="choice 2 answers none of 2 prompts"):
        steps(answer({}, {}, {}), {"prompt": ["a", "b"]})
    assert len(steps(answer({}, {}, {}), {"prompt": ["a"]})) == 3  # whatever n said, there is but one prompt


def test_prompts_of_token_ids() -> None:
    (step,) = steps(answer({"token_ids": [5]}), {"prompt": [1, 2]})
    assert (step.prompt_ids, step.response_ids) == ([1, 2], [5])
    assert step.messages == [
        {"role": "user", "content": [{"type": "text", "text": "", "extra": {"token_ids": [1, 2]}}]}
    ]
    first, second = steps(answer({"token_ids": [5]}, {"token_ids": [6]}), {"prompt": [[1], [2, 3]]})
    assert (first.prompt_ids, second.prompt_ids) == ([1], [2, 3])
    (cut,) = steps(answer({"token_ids": [5], "prompt_token_ids": [2]}), {"prompt": [1, 2]})
    assert cut.prompt_ids == [2]  # the engine's own word goes first
    (bare,) = steps(answer(), {"prompt": [1, 2]})
    assert bare.prompt_ids is None and not bare.trainable


def test_usage_checks_the_ids() -> None:
    usage = {"completion_tokens": 3}
    (step,) = steps(answer({"token_ids": [5]}, usage=usage), {"prompt": [1]})
    assert step.untrainable_reason == "1 token ids came for 3 completion tokens"
    assert steps(answer({"token_ids": [5]}, usage=usage), {"prompt": [1], "best_of": 3})[0].trainable
    for ids, reason in (([6, 7], None), ([6], "2 token ids came for 3 completion tokens of 2 choices")):
        both = steps(answer({"token_ids": [5]}, {"token_ids": ids}, usage=usage), {"prompt": [1]})
        assert [step.untrainable_reason for step in both] == [reason, reason]


def test_a_stream_is_joined() -> None:
    def piece(text: str, *ids: int, **more: Any) -> dict[str, Any]:
        logprobs = {"tokens": [text], "token_logprobs": [-0.5], "text_offset": [0]}
        return {"id": "r", "model": "m", "choices": [{"index": 0, "text": text, "token_ids": list(ids), "logprobs": logprobs,
                                                      **more}]}  # fmt: skip

    body = sse(piece("a", 5, prompt_token_ids=[1, 2]), piece("ü", 6), piece("", 7, finish_reason="length"),
               {"choices": [], "usage": {"completion_tokens": 3}})  # fmt: skip
    (step,) = steps(body, {"stream": True})
    assert step.response == {"role": "assistant", "content": [{"type": "text", "text": "aü"}]}
    assert (step.prompt_ids, step.response_ids, step.logprobs) == ([1, 2], [5, 6, 7], [-0.5] * 3)
    assert (step.status, step.finish_reason, step.usage) == ("truncated", "length", {"completion_tokens": 3})
    assert (step.extra or {})["choice"]["logprobs"]["tokens"] == ["a", "ü", ""]
    for ended in (body.replace(b"\n", b"\r\n"), body.replace(b"\n", b"\r"), body.replace(b"data: ", b"data:")):
        assert steps(ended, {"stream": True}) == [step]
    for cut in range(len(body) - 20):
        for part in steps(body[:cut], end="upstream_error"):
            assert part.status == "truncated" and not part.trainable


@pytest.mark.parametrize(
    ("engine", "body", "flags"),
    [
        ("vllm", {}, {"return_token_ids": True, "logprobs": 1}),
        ("sglang", {"stream": True, "logprobs": True}, {"return_token_ids": True, "logprobs": 1}),
        ("vllm", {"return_token_ids": True, "logprobs": 5}, {}),
        ("vllm", {"return_token_ids": False, "logprobs": 0}, {"return_token_ids": True, "logprobs": 1}),
        ("llamacpp", {}, {}),
    ],
)
def test_flags_are_what_the_agent_has_not_set(engine: str, body: dict[str, Any], flags: dict[str, Any]) -> None:
    dialect = dialect_for("POST", "/v1/completions")
    assert dialect is not None and dialect.flags(engine, body) == flags


@pytest.mark.parametrize("asked", [{"prompt": 5}, {"prompt": {}}, {"prompt": [["a"]]}, {"prompt": [1, "a"]}, {"prompt": [True]},
                                   {"suffix": 5}, {"prompt": None, "messages": [{}]}, {"model": 5}])  # fmt: skip
def test_a_request_that_is_none_is_unparseable(asked: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        steps(answer(), asked)


said = words()
FIELDS = ["index", "text", "message", "content", "logprobs", "tokens", "token_logprobs", "token_ids", "prompt_token_ids",
          "finish_reason", "choices", "usage", "completion_tokens", "id", "model", "error", "prompt", "suffix", "n", "echo",
          "reasoning", "best_of"]  # fmt: skip
values = shaped(anything(said), FIELDS, 6)
choice = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS[:10], values))
replies = st.fixed_dictionaries(
    {"choices": st.lists(choice, max_size=3) | values}, optional={"usage": values, "id": values}
)
requests = st.fixed_dictionaries(
    {"prompt": said | st.lists(said | st.lists(st.integers(0, 9), max_size=2), max_size=3) | values},
    optional={"n": st.integers(-1, 3) | values, "suffix": values, "echo": values, "model": values},
)


@settings(max_examples=120)
@given(st.lists(replies | values, min_size=1, max_size=3), requests, ENDS, st.booleans())
def test_no_json_makes_it_fail(made: list[Any], asked: Any, end: End, streamed: bool) -> None:
    body = sse(*made, done=False) if streamed else json.dumps(made[0]).encode()
    never_fails(make(body, json.dumps(asked).encode(), end=end))


@given(st.binary(max_size=60), st.binary(max_size=30), ENDS)
def test_no_bytes_make_it_fail(body: bytes, asked: bytes, end: End) -> None:
    never_fails(make(body, asked, end=end))
    never_fails(make(body, end=end))
