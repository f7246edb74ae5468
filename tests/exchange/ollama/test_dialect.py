"""Ollama's exchanges as steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, NoStep, Request, Response, Unparseable, dialect_for, parse
from stepwell.sdk.records import Step

from .. import junk
from ..junk import ENDS, anything, shaped, words

WHY = {"role": "user", "content": "why?"}
DONE = {"model": "q", "created_at": "t", "done": True, "done_reason": "stop", "eval_count": 3, "prompt_eval_count": 2}


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def make(
    body: bytes,
    asked: dict[str, Any] | None = None,
    *,
    path: str = "chat",
    end: End = "complete",
    status: int | None = 200,
    **more: Any,
) -> Exchange:
    request = {"model": "q", **({"messages": [WHY]} if path == "chat" else {"prompt": "why?"}), **(asked or {})}
    response = Response(status, [("content-type", "application/x-ndjson")], body, end, 2_000)
    sent = Request("POST", f"http://x/api/{path}", [], json.dumps(request).encode(), 1_000)
    return Exchange("x", f"ollama.{path}", sent, response, **more)


def one(body: bytes, asked: dict[str, Any] | None = None, **options: Any) -> Step:
    (step,) = parse(make(body, asked, **options))
    return step


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/api/chat", "ollama.chat"),
        ("POST", "/ollama/api/chat?x=1", "ollama.chat"),
        ("POST", "/api/generate", "ollama.generate"),
        ("GET", "/api/chat", None),
        ("GET", "/api/generate", None),
        *(("POST", f"/api/{other}", None) for other in ("embed", "embeddings", "show", "pull", "tags", "chat/x", "ps")),
    ],
)
def test_what_is_a_generation(method: str, path: str, name: str | None) -> None:
    dialect = dialect_for(method, path)
    assert (dialect.name if dialect else None) == name
    assert dialect is None or dialect.flags("vllm", {}) == {}


def test_a_streamed_chat() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    asked = {"tools": tools, "options": {"temperature": 0}, "think": True, "format": "json", "keep_alive": "5m",
             "stream": True, "logprobs": True}  # fmt: skip
    body = lines(
        {"model": "q", "created_at": "s", "message": {"role": "assistant", "content": "", "thinking": "h"}, "done": False},
        {"model": "q", "created_at": "s", "message": {"role": "assistant", "thinking": "m"}, "done": False},
        {"model": "q", "created_at": "s", "message": {"role": "assistant", "content": "be"}, "done": False},
        {"model": "q", "message": {"content": "cause", "tool_calls": [
            {"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"b": 1, "a": [True, None]}}}]}},
        {"model": "q", "message": {"tool_calls": [{"function": {"index": 1, "name": "g", "arguments": {}}}]}},
        {**DONE, "message": {"role": "assistant", "content": ""}, "total_duration": 9, "remote_model": "big"},
    )  # fmt: skip
    step = one(body, asked, trajectory_id="t", added=("logprobs",))
    assert step.response == {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "hm", "extra": {"name": "thinking"}},
            {"type": "text", "text": "because"},
            {"type": "tool_call", "id": "c1", "name": "f", "arguments": '{"b":1,"a":[true,null]}',
             "extra": {"function": {"index": 0}}},
            {"type": "tool_call", "id": None, "name": "g", "arguments": "{}", "extra": {"function": {"index": 1}}},
        ],
    }  # fmt: skip
    assert (step.status, step.finish_reason, step.model, step.model_asked) == ("ok", "stop", "q", "q")
    assert step.usage == {"eval_count": 3, "prompt_eval_count": 2, "total_duration": 9}
    assert step.tools == tools and step.messages == [{"role": "user", "content": [{"type": "text", "text": "why?"}]}]
    assert step.sampling == {"options": {"temperature": 0}, "think": True, "format": "json"}
    assert step.extra == {
        "request": {"keep_alive": "5m", "stream": True},
        "response": {"created_at": "t", "remote_model": "big"},
        "added": ["logprobs"],
    }
    assert (step.trajectory_id, step.trainable) == ("t", False)


def test_a_plain_chat_is_the_same_step_as_its_stream() -> None:
    streamed = lines(*({"model": "q", "message": {"content": text}} for text in "yes"), {**DONE, "message": {}})
    plain = json.dumps({**DONE, "message": {"role": "assistant", "content": "yes"}}, indent=1).encode()
    assert one(plain) == one(streamed)


def test_a_generation_is_an_answer_to_one_user() -> None:
    asked = {"system": "brief", "prompt": "def f(", "suffix": "return 1", "template": "{{ .Prompt }}", "raw": False,
             "context": [1, 2], "images": ["eA=="], "options": {"num_predict": 5}, "stream": True}  # fmt: skip
    body = lines(
        {"model": "q", "response": "", "thinking": "hm", "done": False},
        {"model": "q", "response": "x):", "done": False},
        {**DONE, "response": "", "done_reason": "length", "context": [1, 2, 3]},
    )
    step = one(body, asked, path="generate")
    assert step.messages == [
        {"role": "system", "content": [{"type": "text", "text": "brief"}]},
        {"role": "user", "content": [
            {"type": "image", "extra": {"data": "eA=="},
             "hash": "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"},
            {"type": "text", "text": "def f("},
            {"type": "text", "text": "return 1", "extra": {"field": "suffix"}}]},
    ]  # fmt: skip
    assert step.response is not None and [part["text"] for part in step.response["content"]] == ["hm", "x):"]
    assert (step.status, step.finish_reason) == ("truncated", "length")
    assert step.prompt_ids is None and step.response_ids is None  # a context is of the prompt and the answer together
    assert step.extra is not None and step.extra["response"]["context"] == [1, 2, 3]
    assert step.extra["request"] == {"template": "{{ .Prompt }}", "raw": False, "context": [1, 2], "stream": True}


@pytest.mark.parametrize("path", ["chat", "generate"])
@pytest.mark.parametrize(
    ("asked", "answer", "reason"),
    [
        ({"messages": [], "prompt": ""}, {"done_reason": "load"}, "loaded"),
        ({"messages": [], "keep_alive": 0, "prompt": ""}, {"done_reason": "unload"}, "unloaded"),
        ({"messages": None, "prompt": None}, {}, "nothing was asked"),
    ],
)
def test_loading_a_model_is_no_step(path: str, asked: dict[str, Any], answer: dict[str, Any], reason: str) -> None:
    said = {"message": {"role": "assistant", "content": ""}} if path == "chat" else {"response": ""}
    with pytest.raises(NoStep, match=reason) as raised:
        parse(make(lines({"model": "q", "done": True, **said, **answer}), asked, path=path))
    assert raised.value.context is None


def test_a_load_that_failed_or_said_something_is_a_step() -> None:
    assert one(lines({"error": "no such model"}), {"messages": []}, status=404).status == "error"
    assert one(lines({**DONE, "done_reason": "load", "message": {"content": "hm"}})).status == "ok"
    assert one(lines({"done": True, "message": {"content": ""}})).status == "ok"  # asked, and nothing to say
    assert one(b"", {"messages": []}, end="client_disconnect").status == "client_disconnect"


def test_an_error_line_in_a_good_status_ends_the_step_with_an_error() -> None:
    step = one(lines({"model": "q", "message": {"content": "par"}}, {"error": "the runner died"}))
    assert (step.status, step.trainable) == ("error", False)
    assert step.extra is not None and step.extra["error"] == "the runner died"
    assert step.response is not None and step.response["content"][0]["text"] == "par"
    assert one(lines({"error": "at once"})).status == "error"


@pytest.mark.parametrize(
    ("end", "status"),
    [("client_disconnect", "client_disconnect"), ("upstream_error", "truncated"), ("aborted", "aborted"),
     ("complete", "truncated")],
)  # fmt: skip
def test_a_stream_without_its_last_line_is_not_whole(end: End, status: str) -> None:
    step = one(lines({"model": "q", "message": {"content": "par"}, "done": False}), end=end)
    assert (step.status, step.finish_reason, step.trainable) == (status, None, False)


@pytest.mark.parametrize(
    "asked",
    [
        {"messages": "hi"},
        {"messages": [5]},
        {"messages": [{"role": "user", "content": ["x"]}]},
        {"messages": [{"role": "user", "content": "x", "images": "eA=="}]},
        {"messages": [{"role": "assistant", "tool_calls": {"id": "c"}}]},
        {"tools": "all"},
        {"model": 5},
    ],
)
def test_a_request_that_is_none_is_unparseable(asked: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        one(lines({**DONE, "message": {"content": "x"}}), asked)


@pytest.mark.parametrize("asked", [{"prompt": 5}, {"system": []}, {"suffix": {}}, {"images": "x"}])
def test_so_is_a_prompt_that_is_none(asked: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        one(lines({**DONE, "response": "x"}), asked, path="generate")


said = words("stop", "load", "assistant")
FIELDS = ["role", "content", "thinking", "images", "tool_calls", "function", "name", "arguments", "message", "response",
          "done", "done_reason", "error", "logprobs", "context", "eval_count", "model", "messages", "prompt", "tools",
          "system", "suffix"]  # fmt: skip
values = shaped(anything(said), FIELDS)
objects = st.dictionaries(st.sampled_from(FIELDS), values, max_size=6)
paths = st.sampled_from(["chat", "generate"])


@settings(max_examples=80)
@given(st.lists(objects | values, max_size=4), objects, ENDS, paths)
def test_no_json_makes_it_fail(answer: list[Any], asked: dict[str, Any], end: End, path: str) -> None:
    never_fails(make(lines(*answer), asked, path=path, end=end))


@given(st.binary(max_size=60), st.binary(max_size=30), ENDS, paths)
def test_no_bytes_make_it_fail(body: bytes, asked: bytes, end: End, path: str) -> None:
    never_fails(make(body, path=path, end=end))
    request = Request("POST", f"http://x/api/{path}", [], asked, 1)
    never_fails(Exchange("x", f"ollama.{path}", request, Response(200, [], body, end, 2)))


def test_absurd_nesting_is_unparseable() -> None:
    deep = b'{"message": {"tool_calls": ' + b"[" * 100_000
    never_fails(make(deep))
    never_fails(
        make(b'{"message": {"tool_calls": [{"function": {"arguments": ' + b'{"a":' * 500 + b"1" + b"}" * 504 + b"]}}")
    )


def never_fails(exchange: Exchange) -> None:
    """One step at most."""
    assert len(junk.never_fails(exchange, (Unparseable, NoStep))) <= 1
