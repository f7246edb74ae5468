"""Gemini exchanges as steps: which requests are generations, what was asked, how it ended."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, Request, Response, Unparseable, dialect_for, parse
from stepwell.exchange._gemini.dialect import Gemini
from stepwell.sdk.records import Step

from ..junk import ENDS, anything, never_fails, shaped, words

unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

HOST = "https://generativelanguage.googleapis.com"
URL = f"{HOST}/v1beta/models/gemini-x:generateContent"
HI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
HO: dict[str, Any] = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "ho"}]}, "finishReason": "STOP"}],
    "modelVersion": "gemini-x-001",
    "responseId": "r",
}


def make(
    body: bytes | Any = None,
    asked: bytes | Any = None,
    *,
    url: str = URL,
    status: int | None = 200,
    end: End = "complete",
    **fields: Any,
) -> Exchange:
    raw = body if isinstance(body, bytes) else json.dumps(HO if body is None else body).encode()
    request = asked if isinstance(asked, bytes) else json.dumps(HI if asked is None else asked).encode()
    kind = "text/event-stream" if raw.startswith(b"data:") else "application/json"
    response = Response(status, [("content-type", kind)], raw, end, 2_000, **fields)
    return Exchange("x", "gemini", Request("POST", url, [], request, 1_000), response)


def step(body: Any = None, asked: Any = None, **options: Any) -> Step:
    (made,) = parse(make(body, asked, **options))
    return made


VERTEX = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l"


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro"),
        ("/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini-2.5-pro"),
        ("/v1alpha/models/gemini%2Dx:generateContent", "gemini-x"),
        ("/v1beta/tunedModels/mine:generateContent", "tunedModels/mine"),
        ("/v1/projects/p/locations/l/publishers/google/models/gemini-x:streamGenerateContent", "gemini-x"),
        ("/v1/projects/p/locations/l/endpoints/12:generateContent", "endpoints/12"),
        ("/router/v2/google/v1beta/models/gemini-x:generateContent", "gemini-x"),
    ],
)
def test_generations_and_the_model_in_their_path(path: str, model: str) -> None:
    dialect = dialect_for("POST", path)
    assert dialect is not None and dialect.name == "gemini"
    made = step(url=f"http://host:80{path}")
    assert (made.model_asked, made.policy, made.model) == (model, model, "gemini-x-001")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1beta/models/gemini-x:generateContent"),
        ("POST", "/v1beta/models/gemini-x:countTokens"),
        ("POST", "/v1beta/models/gemini-x:embedContent"),
        ("POST", "/v1beta/models/gemini-x:batchEmbedContents"),
        ("POST", "/v1beta/models/gemini-x:batchGenerateContent"),
        ("POST", "/v1beta/models/gemini-x:predict"),
        ("POST", "/v1beta/models/gemini-x:asyncBatchGenerateContent"),
        ("POST", "/v1beta/models/gemini-x"),
        ("POST", "/v1internal:countTokens"),
        ("POST", "/v1internal:loadCodeAssist"),
        ("POST", "/v1beta/interactions"),
        ("POST", "/v1beta/cachedContents"),
        ("POST", "/generateContent"),
        ("POST", "/:generateContent"),
        ("POST", "/v1/projects/p/locations/l/publishers/anthropic/models/claude:streamRawPredict"),
    ],
)
def test_what_is_no_generation(method: str, path: str) -> None:
    assert not Gemini().matches(method, path)


def test_no_flag_gives_token_ids() -> None:
    assert Gemini().flags("vllm", {}) == {}


def test_everything_asked_and_answered_is_on_the_step() -> None:
    tools: list[dict[str, Any]] = [{"functionDeclarations": [{"name": "f"}]}, {"googleSearch": {}}]
    asked = {
        **HI,
        "systemInstruction": {"parts": [{"text": "be kind"}]},
        "tools": tools,
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "safetySettings": [{"category": 10, "threshold": 3}],
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 9, "thinkingConfig": {"thinking_budget": 1}},
        "labels": {"a": "b"},
    }
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 2, "trafficType": "ON_DEMAND"}
    answered = {
        **HO,
        "usageMetadata": usage,
        "createTime": "now",
        "promptFeedback": {"safetyRatings": []},
        "candidates": [{**HO["candidates"][0], "groundingMetadata": {"webSearchQueries": ["q"]}, "index": 0}],
    }
    assert step(answered, asked) == Step(
        step_id="x.0",
        call_id="x",
        dialect="gemini",
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "be kind"}]},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        ],
        response={"role": "assistant", "content": [{"type": "text", "text": "ho"}]},
        tools=tools,
        sampling={
            "temperature": 0.5,
            "maxOutputTokens": 9,
            "thinkingConfig": {"thinking_budget": 1},
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
            "safetySettings": [{"category": 10, "threshold": 3}],
        },
        finish_reason="STOP",
        usage=usage,
        fingerprint="gemini:gemini-x-001",
        policy="gemini-x",
        model="gemini-x-001",
        model_asked="gemini-x",
        response_id="r",
        started_at=datetime.fromtimestamp(1e-6, UTC),
        finished_at=datetime.fromtimestamp(2e-6, UTC),
        trainable=False,
        untrainable_reason="the engine gave no token ids",
        extra={
            "request": {"labels": {"a": "b"}},
            "response": {"createTime": "now", "promptFeedback": {"safetyRatings": []}},
            "choice": {"groundingMetadata": {"webSearchQueries": ["q"]}},
        },
    )


def test_requests_in_either_case() -> None:
    snake = {
        "contents": {"parts": {"text": "hi"}},
        "system_instruction": {"parts": {"text": "s"}},
        "generation_config": {"max_output_tokens": 5, "response_mime_type": "a/b", "top_k": None},
        "safety_settings": [],
        "tool_config": {},
        "tools": {"google_search": {}},
        "cached_content": None,
    }
    made = step(asked=snake)
    assert made.messages is not None
    assert [message["role"] for message in made.messages] == ["system", "user"]
    assert made.sampling == {"maxOutputTokens": 5, "responseMimeType": "a/b", "safetySettings": [], "toolConfig": {}}
    assert made.tools == [{"google_search": {}}]
    assert made.extra is None


def test_cached_content_leaves_a_note() -> None:
    made = step(asked={**HI, "cachedContent": "cachedContents/c"})
    assert made.extra is not None
    assert made.extra["request"]["cachedContent"] == "cachedContents/c"
    assert "cached content" in made.extra["request"]["incomplete_prompt"]


def test_a_conversation_with_tools_keeps_its_messages() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "weather?"}, {"fileData": {"mimeType": "image/png", "fileUri": "gs://x"}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}, {"functionCall": {"name": "g"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": 1}}}, {"text": "and?"}]},
    ]
    made = step(asked={"contents": contents})
    assert made.messages is not None
    assert [[part["type"] for part in message["content"]] for message in made.messages] == [
        ["text", "image"],
        ["tool_call", "tool_call"],
        ["tool_result", "text"],
    ]


def test_code_assist() -> None:
    asked = {"model": "gemini-x", "project": "p", "user_prompt_id": "u", "request": {**HI, "session_id": "s"}}
    url = "https://cloudcode-pa.googleapis.com/v1internal:streamGenerateContent?alt=sse"
    dialect = dialect_for("POST", "/v1internal:streamGenerateContent?alt=sse")
    assert dialect is not None and dialect.name == "gemini"
    made = step(b"data: " + json.dumps({"response": HO, "traceId": "t"}).encode() + b"\n\n", asked, url=url)
    assert (made.model_asked, made.model, made.status) == ("gemini-x", "gemini-x-001", "ok")
    assert made.extra == {
        "request": {"sessionId": "s", "envelope": {"project": "p", "userPromptId": "u"}},
        "response": {"envelope": {"traceId": "t"}},
    }
    assert made.messages == step().messages
    bare = step(asked=HI, url=url)  # a gateway that leaves the envelope out
    assert (bare.model_asked, bare.messages) == (None, made.messages)


def test_numbers_of_enums_are_those_of_the_api() -> None:
    body = {"candidates": [{**HO["candidates"][0], "finishReason": 7}]}
    assert step(body).finish_reason == "BLOCKLIST"
    vertex = f"{VERTEX}/publishers/google/models/gemini-x:generateContent"
    assert step(body, url=vertex).finish_reason == "PROHIBITED_CONTENT"


def sse(*chunks: Any) -> bytes:
    return "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks).encode()


OPEN = {"candidates": [{"content": {"parts": [{"text": "par"}], "role": "model"}}]}
OVER = {"candidates": [{"content": {"parts": [{"text": "t"}], "role": "model"}, "finishReason": "STOP"}]}
FULL = {"candidates": [{"content": {"parts": []}, "finishReason": "MAX_TOKENS"}]}
BLOCKED = {"promptFeedback": {"blockReason": "SAFETY"}}


@pytest.mark.parametrize("form", [sse, lambda *chunks: json.dumps(chunks).encode()], ids=["events", "array"])
@pytest.mark.parametrize(
    ("chunks", "options", "status"),
    [
        ([OPEN], {}, "truncated"),
        ([OPEN], {"end": "client_disconnect"}, "client_disconnect"),
        ([OPEN], {"end": "upstream_error"}, "truncated"),
        ([OPEN], {"end": "aborted"}, "aborted"),
        ([OPEN], {"truncated": True}, "truncated"),
        ([OPEN, OVER], {}, "ok"),
        ([OPEN, OVER], {"end": "client_disconnect"}, "ok"),
        ([OPEN, OVER], {"truncated": True}, "truncated"),
        ([OPEN, FULL], {}, "truncated"),
        ([OPEN, {"error": {"code": 503}}], {}, "error"),
        ([OPEN, OVER], {"status": 500}, "error"),
        ([BLOCKED], {}, "error"),
        ([OPEN, BLOCKED], {}, "error"),
    ],
)
def test_how_a_stream_ended(form: Any, chunks: list[Any], options: dict[str, Any], status: str) -> None:
    made = step(form(*chunks), **options)
    assert made.status == status
    assert not made.trainable
    if options.get("status") is None and OPEN in chunks:
        assert made.response is not None
        assert made.response["content"] == [{"type": "text", "text": "part" if OVER in chunks else "par"}]


def test_no_answer_at_all() -> None:
    made = step(b"", status=None, end="upstream_error", error="connection refused")
    assert made.status == "error" and "connection refused" in (made.untrainable_reason or "")
    assert step(b"", end="client_disconnect").status == "client_disconnect"


def test_an_error_status_is_a_step_with_its_error() -> None:
    made = step({"error": {"code": 400, "status": "INVALID_ARGUMENT"}}, status=400)
    assert made.status == "error"
    assert made.extra == {"error": {"code": 400, "status": "INVALID_ARGUMENT"}, "http_status": 400}


def test_a_blocked_prompt_is_a_step_that_names_the_block() -> None:
    made = step(BLOCKED)
    assert (made.status, made.finish_reason) == ("error", None)
    assert made.response == {"role": "assistant", "content": []}
    assert made.extra is not None and made.extra["error"]["blockReason"] == "SAFETY"


def test_an_unusual_end_is_no_failure_of_the_call() -> None:
    for reason in ("SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "NEW_REASON"):
        made = step({"candidates": [{"finishReason": reason, "finishMessage": "why"}]})
        assert (made.status, made.finish_reason) == ("ok", reason)
        assert made.extra == {"choice": {"finishMessage": "why"}}


def test_every_candidate_is_a_step_of_one_call() -> None:
    second, first = parse(make({"candidates": [{**FULL["candidates"][0], "index": 1}, OVER["candidates"][0]]}))
    assert (first.step_id, second.step_id, first.call_id, second.call_id) == ("x.0", "x.1", "x", "x")
    assert (first.status, second.status) == ("ok", "truncated")


@pytest.mark.parametrize(
    "asked",
    [b"", b"{", b"[]", b"5", b"\xff", b'{"contents": [{"parts": [{"text": "\\ud800"}]}]}', {}, {"contents": None},
     {"contents": 5}, {"contents": [5]}, {"contents": [{"parts": [5]}]}, {**HI, "systemInstruction": 5},
     {**HI, "tools": 5}, {**HI, "tools": [5]}, b'{"contents": ' + b"[" * 3000],
)  # fmt: skip
def test_a_request_that_is_none_is_unparseable(asked: Any) -> None:
    with pytest.raises(Unparseable):
        step(asked=asked)


said = words("STOP", "model", "$.a", "$.a[0]", "image/png")
KEYS = [
    "candidates", "content", "parts", "role", "text", "thought", "thoughtSignature", "thought_signature",
    "functionCall", "function_call", "name", "args", "id", "partialArgs", "partial_args", "jsonPath", "stringValue",
    "numberValue", "nullValue", "willContinue", "functionResponse", "response", "inlineData", "inline_data",
    "mimeType", "data", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolType", "finishReason",
    "finish_reason", "index", "groundingMetadata", "citationMetadata", "citationSources", "logprobsResult",
    "chosenCandidates", "promptFeedback", "blockReason", "usageMetadata", "modelVersion", "responseId", "error",
    "contents", "systemInstruction", "generationConfig", "tools", "request", "cachedContent",
]  # fmt: skip
values = shaped(anything(said), KEYS)
part_like = st.dictionaries(st.sampled_from(KEYS), values, max_size=4)
candidates = st.fixed_dictionaries(
    {"content": st.fixed_dictionaries({"parts": st.lists(part_like, max_size=3)}) | values}
)
chunks = st.fixed_dictionaries({"candidates": st.lists(candidates | part_like, max_size=2)}) | part_like


@unhurried
@given(st.lists(chunks, max_size=4), ENDS, st.booleans())
def test_no_stream_makes_it_fail(made: list[Any], end: End, events: bool) -> None:
    never_fails(make(sse(*made) if events else json.dumps(made).encode(), end=end))


@unhurried
@given(chunks, ENDS)
def test_no_answer_makes_it_fail(made: Any, end: End) -> None:
    never_fails(make(json.dumps(made).encode(), end=end))


@unhurried
@given(st.binary(max_size=60), ENDS, st.sampled_from([b"", b"data: ", b"[", b'[{"candidates": [']))
def test_no_bytes_make_it_fail(body: bytes, end: End, start: bytes) -> None:
    never_fails(make(start + body, end=end))


@unhurried
@given(st.fixed_dictionaries({"contents": st.lists(candidates | part_like | values, max_size=3)}, optional={
    "systemInstruction": values, "generationConfig": values, "tools": values, "cachedContent": values}) | values)  # fmt: skip
def test_no_request_makes_it_fail(asked: Any) -> None:
    never_fails(make(asked=json.dumps(asked).encode()))


@unhurried
@given(st.binary(max_size=60))
def test_nor_do_any_bytes(asked: bytes) -> None:
    never_fails(make(asked=asked))
