"""Converse answers, from a plain body and from a stream's events."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._bedrock.reply import answer_from_body, answer_from_events

USAGE = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
MESSAGE = {"role": "assistant", "content": [{"text": "ho"}]}


def body(**fields: Any) -> dict[str, Any]:
    return {"output": {"message": MESSAGE}, "stopReason": "end_turn", "usage": USAGE, **fields}


def test_all_of_a_plain_answer_is_there() -> None:
    rest = {"metrics": {"latencyMs": 5}, "trace": {"guardrail": {}}, "additionalModelResponseFields": {"a": 1}}
    answer = answer_from_body(body(**rest, performanceConfig=None, output={"message": MESSAGE, "more": 1}))
    (choice,) = answer.choices
    assert choice.message == {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}
    assert (choice.finish_reason, choice.cut, choice.index) == ("end_turn", False, 0)
    assert (answer.usage, answer.terminated, answer.error) == (USAGE, True, None)
    assert answer.extra == {**rest, "output": {"more": 1}}


@pytest.mark.parametrize(
    ("reason", "cut"),
    [
        ("max_tokens", True),
        ("model_context_window_exceeded", True),
        ("tool_use", False),
        ("stop_sequence", False),
        ("guardrail_intervened", False),
        ("content_filtered", False),
        ("malformed_tool_use", False),
    ],
)
def test_which_reasons_mean_a_limit_of_length(reason: str, cut: bool) -> None:
    for answer in (
        answer_from_body(body(stopReason=reason)),
        answer_from_events([("messageStop", {"stopReason": reason})]),
    ):
        (choice,) = answer.choices
        assert (choice.finish_reason, choice.cut, answer.terminated) == (reason, cut, True)


def test_the_model_that_a_router_chose_is_the_model() -> None:
    trace = {"promptRouter": {"invokedModelId": "arn:chosen"}}
    assert answer_from_body(body(trace=trace)).model == "arn:chosen"
    assert answer_from_events([("metadata", {"trace": trace})]).model == "arn:chosen"
    assert answer_from_body(body(trace={"promptRouter": 5})).model is None


def test_an_answer_without_a_message_has_a_reason_at_least() -> None:
    (choice,) = answer_from_body(body(output={}, stopReason="guardrail_intervened")).choices
    assert choice.message["content"] == []


def test_an_error_with_status_200_is_an_error() -> None:
    answer = answer_from_body({"message": "no", "__type": "x"})
    assert (answer.choices, answer.error, answer.terminated) == ([], {"message": "no", "__type": "x"}, True)


@pytest.mark.parametrize(
    "value", [None, 5, "a", [], {}, {"output": {}}, {"output": 5}, {"output": {"message": 5}, "stopReason": "x"},
              {"output": {"message": {"content": []}}}, {"output": {"message": {"role": "assistant", "content": 5}}}]
)  # fmt: skip
def test_what_is_no_answer_is_unparseable(value: Any) -> None:
    with pytest.raises(Unparseable):
        answer_from_body(value)


EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("messageStart", {"role": "assistant", "p": "abc"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "h"}, "p": "a"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "o"}, "p": "ab"}),
    ("contentBlockStop", {"contentBlockIndex": 0, "p": ""}),
    ("messageStop", {"stopReason": "end_turn", "additionalModelResponseFields": {"a": 1}, "p": "x"}),
    ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 5}, "serviceTier": {"type": "default"}, "p": "y"}),
]


def test_a_stream_is_the_answer_that_the_same_pieces_make_plain() -> None:
    rest = {"metrics": {"latencyMs": 5}, "additionalModelResponseFields": {"a": 1}, "serviceTier": {"type": "default"}}
    assert answer_from_events(EVENTS) == answer_from_body(body(**rest))


def test_a_stream_goes_as_far_as_it_goes() -> None:
    for cut in range(len(EVENTS) + 1):
        answer = answer_from_events(EVENTS[:cut])
        assert answer.terminated == (cut >= 5)
        assert answer.usage == (USAGE if cut == 6 else None)
        if cut == 0:
            assert answer.choices == []
            continue
        (choice,) = answer.choices
        assert choice.finish_reason == ("end_turn" if cut >= 5 else None)
        assert "".join(part["text"] for part in choice.message["content"]) == "ho"[: max(0, cut - 1)]


def test_usage_alone_ends_no_answer() -> None:
    answer = answer_from_events([EVENTS[0], EVENTS[-1]])
    assert (answer.terminated, answer.usage) == (False, USAGE)


def test_an_event_of_an_unknown_kind_is_kept() -> None:
    assert answer_from_events([*EVENTS, ("weather", {"rain": True, "p": "x"})]).extra["events"] == [
        {"weather": {"rain": True}}
    ]
