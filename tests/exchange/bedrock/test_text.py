"""Completions of a prompt, in the words of each family of models."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._bedrock.invoke import BedrockInvoke
from stepwell.exchange._bedrock.text import answer_from, asked_from

from .frames import the_step

FORMS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "llama": (
        {"generation": "ho", "prompt_token_count": 3, "generation_token_count": 2, "stop_reason": "stop"},
        {"prompt_token_count": 3, "generation_token_count": 2},
    ),
    "claude": ({"completion": "ho", "stop_reason": "stop", "stop": None, "type": "completion"}, None),
    "mistral": ({"outputs": [{"text": "ho", "stop_reason": "stop"}]}, None),
    "titan": (
        {"inputTextTokenCount": 3, "results": [{"tokenCount": 2, "outputText": "ho", "completionReason": "stop"}]},
        {"inputTextTokenCount": 3},
    ),
    "cohere": (
        {
            "id": "r",
            "prompt": "hi",
            "generations": [{"id": "g", "text": "ho", "finish_reason": "stop", "likelihood": -1}],
        },
        None,
    ),
    "deepseek": ({"choices": [{"text": "ho", "stop_reason": "stop"}]}, None),
    "usage": ({"choices": [{"text": "ho", "stop_reason": "stop"}], "usage": {"total_tokens": 5}}, {"total_tokens": 5}),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_plain_answer_of_each_family_and_back(name: str) -> None:
    body, usage = FORMS[name]
    step = the_step(body, asked={"prompt": "hi"}, operation="invoke")
    assert step.response == {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}
    assert (step.finish_reason, step.status, step.usage) == ("stop", "ok", usage)
    assert step.response_id == ("r" if name == "cohere" else "call-1")
    back = BedrockInvoke().answer_of([step])
    assert back == {key: value for key, value in body.items() if value is not None}


def test_ai21s_choices_are_one_level_further_down() -> None:
    completion = {"data": {"text": "ho", "tokens": []}, "finishReason": {"reason": "length", "length": 5}}
    body = {"id": 7, "prompt": {"text": "hi", "tokens": []}, "completions": [completion]}
    answer = answer_from([body])
    (choice,) = answer.choices
    assert choice.message["content"] == [{"type": "text", "text": "ho"}]
    assert (choice.finish_reason, choice.cut) == ("length", True)


def test_every_choice_of_several_is_one() -> None:
    body = {"generations": [{"text": "a", "finish_reason": "COMPLETE"}, {"text": "b", "finish_reason": "MAX_TOKENS"}]}
    first, second = answer_from([body]).choices
    assert [(one.index, one.finish_reason, one.cut) for one in (first, second)] == [
        (0, "COMPLETE", False), (1, "MAX_TOKENS", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "cut", "failed"),
    [
        *(("length", True, False), ("LENGTH", True, False), ("max_tokens", True, False), ("MAX_TOKENS", True, False)),
        *(("stop", False, False), ("FINISH", False, False), ("CONTENT_FILTERED", False, False)),
        *(("ERROR", False, True), ("ERROR_TOXIC", False, True), ("error", False, True)),
        (None, False, False),
    ],
)
def test_what_a_reason_means(reason: str | None, cut: bool, failed: bool) -> None:
    (choice,) = answer_from([{"generations": [{"text": "a", "finish_reason": reason}]}]).choices
    assert (choice.finish_reason, choice.cut, choice.failed) == (reason, cut, failed)


STREAMS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "llama": (
        [
            {"generation": "h", "prompt_token_count": 3, "generation_token_count": 1, "stop_reason": None},
            {"generation": "o", "prompt_token_count": None, "generation_token_count": 2, "stop_reason": "stop"},
        ],
        FORMS["llama"][0],
    ),
    "claude": (
        [{"completion": "h", "stop_reason": None}, {"completion": "o", "stop_reason": "stop", "stop": "\n\nHuman:"}],
        {"completion": "ho", "stop_reason": "stop", "stop": "\n\nHuman:"},
    ),
    "mistral": (
        [{"outputs": [{"text": "h", "stop_reason": None}]}, {"outputs": [{"text": "o", "stop_reason": "stop"}]}],
        FORMS["mistral"][0],
    ),
    "titan": (
        [
            {"outputText": "h", "index": 0, "totalOutputTextTokenCount": None, "completionReason": None,
             "inputTextTokenCount": 3},
            {"outputText": "o", "index": 0, "totalOutputTextTokenCount": 2, "completionReason": "FINISH",
             "inputTextTokenCount": None},
        ],
        {"inputTextTokenCount": 3, "totalOutputTextTokenCount": 2,
         "results": [{"outputText": "ho", "completionReason": "FINISH"}]},
    ),
    "cohere": (
        [{"text": "h", "is_finished": False, "index": 0}, {"text": "o", "is_finished": False, "index": 0},
         {"is_finished": True, "finish_reason": "COMPLETE", "index": 0}],
        {"generations": [{"text": "ho", "is_finished": True, "finish_reason": "COMPLETE"}]},
    ),
    "cohere, with an end that comes alone": (
        [{"is_finished": True, "finish_reason": "COMPLETE"}],
        {"generations": [{"text": "", "is_finished": True, "finish_reason": "COMPLETE"}]},
    ),
    "deepseek": (
        [{"choices": [{"text": "h", "index": 0}]}, {"choices": [{"text": "o", "index": 0, "stop_reason": "stop"}]}],
        FORMS["deepseek"][0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_the_pieces_of_a_stream_are_the_plain_answer(name: str) -> None:
    pieces, body = STREAMS[name]
    made, plain = answer_from(pieces), answer_from([body])
    assert made == plain
    assert made.terminated is False


def test_lists_in_pieces_are_joined_and_other_fields_keep_their_last_value() -> None:
    pieces = [
        {"generations": [{"text": "h", "tokens": [1], "n": 1}]},
        {"generations": [{"text": "o", "tokens": [2, 3], "n": 2}]},
    ]
    before = repr(pieces)
    (choice,) = answer_from(pieces).choices
    assert choice.extra == {"tokens": [1, 2, 3], "n": 2}
    assert repr(pieces) == before


@pytest.mark.parametrize(
    "body", [{}, {"other": 1}, {"outputs": 5}, {"outputs": [5]}, {"choices": {}}, {"results": ["a"]}]
)
def test_an_answer_of_no_known_form_is_unparseable(body: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        answer_from([body])


def test_a_prompt_is_one_message_of_the_users() -> None:
    asked = asked_from({"prompt": "[INST] hi [/INST]", "temperature": 1, "stream": True}, "m")
    assert asked.messages == [{"role": "user", "content": [{"type": "text", "text": "[INST] hi [/INST]"}]}]
    assert (asked.sampling, asked.model, asked.extra) == ({"temperature": 1}, "m", {"stream": True, "form": "prompt"})


def test_the_images_of_a_prompt_are_parts_of_its_message() -> None:
    data = base64.b64encode(b"picture").decode()
    asked = {"prompt": "<|image|>what?", "images": [data], "max_gen_len": 5}
    step = the_step(FORMS["llama"][0], asked=asked, operation="invoke")
    assert step.messages is not None and step.messages[0]["content"][1] == {
        "type": "image",
        "hash": f"sha256:{hashlib.sha256(b'picture').hexdigest()}",
        "extra": {"data": data},
    }
    assert BedrockInvoke().request_of(step) == asked


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": "hi"},
        {"prompt": "hi", "max_gen_len": 5, "temperature": 0.5, "stream": False},
        {"inputText": "hi", "textGenerationConfig": {"maxTokenCount": 5}},
        {"prompt": "hi", "images": 5},
    ],
)
def test_the_request_comes_back(asked: dict[str, Any]) -> None:
    assert BedrockInvoke().request_of(the_step(FORMS["llama"][0], asked=asked, operation="invoke")) == asked


@pytest.mark.parametrize("asked", [{}, {"prompt": 5}, {"prompt": ["a"]}, {"inputText": None}])
def test_a_request_without_a_prompt_is_unparseable(asked: dict[str, Any]) -> None:
    with pytest.raises(Unparseable, match="neither messages nor a prompt"):
        asked_from(asked, None)
