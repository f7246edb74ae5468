"""Bodies put together again from the steps they gave."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.exchange import Exchange, Request, Response, parse
from stepwell.exchange._gemini.dialect import Gemini
from stepwell.sdk.records import Step

unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

REBUILD = Gemini()
CODE_ASSIST = "https://host/v1internal:generateContent"
HI: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
HO: dict[str, Any] = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ho"}]}, "finishReason": "STOP"}]}


def steps(
    answered: bytes | Any, asked: Any = None, url: str = "https://h/v1/models/m:generateContent", status: int = 200
) -> Sequence[Step]:
    body = answered if isinstance(answered, bytes) else json.dumps(answered).encode()
    request = Request("POST", url, [], json.dumps(HI if asked is None else asked).encode(), 1)
    return parse(Exchange("x", "gemini", request, Response(status, [], body, "complete", 2)))


def request_again(asked: Any, **options: Any) -> dict[str, Any]:
    return REBUILD.request_of(steps(HO, asked, **options)[0])


def answer_again(answered: Any, **options: Any) -> dict[str, Any]:
    return REBUILD.answer_of(steps(answered, **options))


@pytest.mark.parametrize(
    "asked",
    [
        HI,
        {**HI, "systemInstruction": {"parts": [{"text": "s"}]}},
        {**HI, "systemInstruction": {"role": "user", "parts": [{"text": "s"}]}},
        {"contents": [{"role": "system", "parts": [{"text": "s"}]}, *HI["contents"]]},
        {**HI, "tools": [{"googleSearch": {}}], "toolConfig": {"a": 1}, "safetySettings": [{"category": 1}]},
        {
            **HI,
            "generationConfig": {"temperature": 0, "stopSequences": ["a"]},
            "cachedContent": "c",
            "labels": {"a": "b"},
        },
        {"contents": [], "model": "models/m"},
    ],
)
def test_requests(asked: dict[str, Any]) -> None:
    assert request_again(asked) == asked


def test_what_is_spelled_otherwise_is_written_as_the_reference_has_it() -> None:
    snake = {
        "contents": {"parts": {"text": "hi"}},
        "system_instruction": {"parts": "s"},
        "generation_config": {"max_output_tokens": 5},
    }
    assert request_again(snake) == {
        "systemInstruction": {"parts": [{"text": "s"}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"maxOutputTokens": 5},
    }


def test_code_assists_envelopes() -> None:
    asked = {"model": "m", "project": "p", "request": {**HI, "sessionId": "s"}}
    assert request_again(asked, url=CODE_ASSIST) == asked
    assert request_again({"request": HI}, url=CODE_ASSIST) == {"request": HI}
    answered = {"response": {**HO, "responseId": "r"}, "traceId": "t"}
    assert answer_again(answered, asked=asked, url=CODE_ASSIST) == answered
    assert answer_again({"response": HO}, asked=asked, url=CODE_ASSIST) == {"response": HO}


@pytest.mark.parametrize(
    "answered",
    [
        HO,
        {**HO, "modelVersion": "m", "responseId": "r", "usageMetadata": {"promptTokenCount": 1}, "createTime": "t"},
        {"candidates": [{**HO["candidates"][0], "groundingMetadata": {"a": 1}, "finishReason": 7}]},
        {"candidates": [{**HO["candidates"][0]}, {**HO["candidates"][0], "index": 1, "avgLogprobs": -1.5}]},
        {"candidates": [{"finishReason": "SAFETY"}]},
        {"candidates": [{"content": {"role": "user", "parts": [{"text": "a"}]}}]},
        {"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []}, "usageMetadata": {"trafficType": "A"}},
        {"promptFeedback": {"blockReasonMessage": "why"}},
        {"modelVersion": "m"},
        {"error": {"code": 503}},
    ],
)
def test_answers(answered: dict[str, Any]) -> None:
    assert answer_again(answered) == answered


def test_an_error_status() -> None:
    assert answer_again({"error": {"code": 400}}, status=400) == {"error": {"code": 400}}


def test_a_streamed_answer_is_the_plain_one_of_the_same_pieces() -> None:
    pieces = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "h", "thought": True}]}}], "responseId": "r"},
        {"candidates": [{"content": {"parts": [{"text": "m", "thought": True}, {"text": "a"}]}}], "modelVersion": "m"},
        {"candidates": [{"content": {"parts": [{"text": "b"}]}}], "usageMetadata": {"promptTokenCount": 1}},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "willContinue": True}}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]}}]}}]},
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"candidatesTokenCount": 2}},
    ]  # fmt: skip
    plain = {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "hm", "thought": True},
                        {"text": "ab"},
                        {"functionCall": {"name": "f", "args": {"a": 1}}},
                    ],
                },
                "finishReason": "STOP",
            }
        ],
        "modelVersion": "m",
        "responseId": "r",
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2},
    }
    assert answer_again(pieces) == plain
    assert steps(plain) == steps(pieces)


texts = st.text(max_size=4)
flat = st.dictionaries(st.text(max_size=3), st.integers(-9, 9) | texts | st.booleans(), max_size=2)
signed = st.fixed_dictionaries({}, optional={"thoughtSignature": st.text(min_size=1, max_size=3)})
ids = st.fixed_dictionaries({"name": st.text(min_size=1, max_size=3)}, optional={"id": texts})
blobs = st.sampled_from([{"mimeType": "image/png", "data": "AAAA"}, {"mimeType": "text/x", "data": "no base64!"}])
data = (
    st.fixed_dictionaries({"text": texts})
    | st.fixed_dictionaries({"text": texts, "thought": st.just(True)})
    | st.builds(lambda call, args: {"functionCall": {**call, "args": args}}, ids, flat)
    | st.builds(lambda call, said: {"functionResponse": {**call, "response": said}}, ids, flat)
    | st.builds(lambda call, blob: {"functionResponse": {**call, "parts": [{"inlineData": blob}]}}, ids, blobs)
    | st.builds(lambda blob: {"inlineData": blob}, blobs)
    | st.builds(lambda said: {"executableCode": said}, flat)
    | st.builds(lambda said: {"toolResponse": said}, flat)
    | st.builds(lambda said: {"newKind": said}, flat)
)
parts = st.lists(st.builds(lambda part, extra: {**part, **extra}, data, signed), max_size=4)
contents = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "model", "function", "tool"]), "parts": parts}), max_size=4
)
requests = st.fixed_dictionaries({"contents": contents}, optional={"systemInstruction": st.fixed_dictionaries({"parts": parts}),
    "generationConfig": st.fixed_dictionaries({"topK": st.integers()})})  # fmt: skip


@unhurried
@given(requests)
def test_any_conversation(asked: dict[str, Any]) -> None:
    assert request_again(asked) == asked


@unhurried
@given(st.lists(parts.filter(bool), min_size=1, max_size=3))
def test_any_answer(said: list[Any]) -> None:
    answered = {
        "candidates": [
            {"content": {"role": "model", "parts": given}, **({"index": place} if place else {})}
            for place, given in enumerate(said)
        ]
    }
    assert answer_again(answered) == answered
