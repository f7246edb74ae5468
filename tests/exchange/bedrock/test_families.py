"""Whose protocol a body of the invoke API speaks, told by its shape."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange._bedrock.families import answered_family, asked_family, no_answer, no_step

HI = [{"role": "user", "content": "hi"}]
BARE = [{"role": "user", "content": [{"text": "hi"}]}]
TYPED = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


@pytest.mark.parametrize(
    ("body", "family"),
    [
        ({"anthropic_version": "bedrock-2023-05-31", "messages": HI}, "anthropic"),
        ({"anthropic_version": "bedrock-2023-05-31", "messages": BARE}, "anthropic"),
        ({"messages": TYPED, "system": "s", "max_tokens": 5}, "anthropic"),
        ({"messages": TYPED, "system": [{"type": "text", "text": "s"}]}, "anthropic"),
        ({"messages": BARE}, "nova"),
        ({"messages": BARE, "schemaVersion": "messages-v1"}, "nova"),
        ({"messages": [], "inferenceConfig": {}}, "nova"),
        ({"messages": HI, "system": [{"text": "s"}]}, "nova"),
        ({"messages": HI, "max_tokens": 5}, "chat"),
        ({"messages": TYPED}, "chat"),
        ({"messages": None}, "chat"),
        ({"message": "hi", "chat_history": []}, "cohere"),
        ({"prompt": "hi", "max_gen_len": 5}, "text"),
        ({"inputText": "hi", "textGenerationConfig": {}}, "text"),
        ({}, "text"),
    ],
)
def test_the_family_of_a_request(body: dict[str, Any], family: str) -> None:
    assert asked_family(body, None) == family
    assert asked_family(body, "arn:aws:bedrock:eu-west-1:1:application-inference-profile/x") == family


def test_where_the_shape_says_nothing_the_models_name_does() -> None:
    assert asked_family({"messages": HI}, "us.anthropic.claude-v9") == "anthropic"
    assert asked_family({"messages": HI}, "openai.gpt-oss-20b") == "chat"


@pytest.mark.parametrize(
    ("value", "family"),
    [
        ({"type": "message", "content": []}, "anthropic"),
        ({"type": "message_start", "message": {}}, "anthropic"),
        ({"type": "completion", "completion": "a"}, "text"),
        ({"output": {"message": {}}}, "nova"),
        ({"contentBlockDelta": {}}, "nova"),
        ({"choices": [{"message": {}}]}, "chat"),
        ({"choices": [{"delta": {}}]}, "chat"),
        ({"choices": [{"text": "a"}]}, "text"),
        ({"text": "a", "generation_id": "g"}, "cohere"),
        ({"event_type": "stream-start"}, "cohere"),
        ({"text": "a", "is_finished": False}, "text"),
        ({"generation": "a"}, "text"),
        ({"outputs": []}, "text"),
        ({"results": [{"outputText": "a"}]}, "text"),
        ({"outputText": "a"}, "text"),
        ({"generations": []}, "text"),
        ({"completions": []}, "text"),
        ({}, None),
        ({"type": 5}, None),
        ({"other": 1}, None),
    ],
)
def test_the_family_of_an_answer(value: dict[str, Any], family: str | None) -> None:
    assert answered_family(value) == family


@pytest.mark.parametrize(
    ("body", "model", "reason"),
    [
        ({"inputText": "a", "dimensions": 256, "normalize": True}, None, "an embedding"),
        ({"inputText": "a"}, "amazon.titan-embed-text-v2:0", "an embedding"),
        ({"inputImage": "aGk="}, None, "an embedding"),
        ({"texts": ["a"], "input_type": "search_query"}, None, "an embedding"),
        ({"query": "q", "documents": ["a"], "top_n": 1}, None, "a ranking"),
        ({"taskType": "TEXT_IMAGE", "textToImageParams": {"text": "a"}}, None, "an image"),
        ({"text_prompts": [{"text": "a"}]}, None, "an image"),
        ({"prompt": "a"}, "stability.sd3-large-v1:0", "an image"),
        ({"inputText": "a"}, None, None),
        ({"inputText": "a", "textGenerationConfig": {}}, "amazon.titan-text-express-v1", None),
        ({"prompt": "a"}, "meta.llama3-8b-instruct-v1:0", None),
        ({"messages": HI, "dimensions": 5}, None, None),
        ({"message": "a", "query": "q", "documents": []}, None, None),
    ],
)
def test_what_is_no_generation_of_text(body: dict[str, Any], model: str | None, reason: str | None) -> None:
    assert no_step(body, model) == reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"embedding": [0.1], "inputTextTokenCount": 1}, "an embedding"),
        ({"embeddings": [[0.1]], "id": "i"}, "an embedding"),
        ({"embeddingsByType": {}}, "an embedding"),
        ({"images": ["aGk="]}, "an image"),
        ({"artifacts": []}, "an image"),
        ({"results": [{"index": 0, "relevance_score": 0.5}]}, "a ranking"),
        ({"results": [{"outputText": "a"}]}, None),
        ({"results": []}, None),
        ({"generation": "a"}, None),
    ],
)
def test_an_answer_that_is_none_of_text(value: dict[str, Any], reason: str | None) -> None:
    assert no_answer(value) == reason
