from __future__ import annotations

import pytest

from stepwell.errors import InvalidRecord
from stepwell.exchange import Request, dialect_for, request_entry
from stepwell.sdk._heads import claims, is_generation, kept_headers, kept_url, without_secrets

URLS = [
    "https://api.openai.com/v1/chat/completions",
    "https://api.openai.com/v1/completions",
    "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
    "https://api.openai.com/v1/responses",
    "https://api.openai.com/v1/responses/resp_1/input_items",
    "https://api.openai.com/v1/embeddings",
    "https://api.openai.com/v1/models",
    "https://api.anthropic.com/v1/messages?beta=true",
    "https://api.anthropic.com/v1/messages/count_tokens",
    "https://api.anthropic.com/v1/messages/batches",
    "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse",
    "https://generativelanguage.googleapis.com/v1beta/models/g:countTokens",
    "https://r-aiplatform.googleapis.com/v1/projects/p/locations/r/publishers/anthropic/models/c:streamRawPredict",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude/invoke-with-response-stream",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/async-invoke",
    "http://localhost:11434/api/chat",
    "http://localhost:11434/api/tags",
]


@pytest.mark.parametrize("url", URLS)
def test_what_is_recorded_is_what_is_parsed(url: str) -> None:
    path = "/" + url.split("/", 3)[3]
    assert is_generation("POST", url) == (dialect_for("POST", path) is not None)
    assert not is_generation("GET", url)


def test_no_credential_leaves() -> None:
    secret = [
        "authorization",
        "x-api-key",
        "api-key",
        "cookie",
        "x-goog-api-key",
        "proxy-authorization",
        "x-stepwell-token",
    ]
    kept = [
        "Content-Type",
        "User-Agent",
        "anthropic-version",
        "x-stainless-retry-count",
        "x-stepwell-prompt",
        "x-request-id",
    ]
    headers = [(name, "v") for name in (*secret, *kept, "x-unheard-of", "bücher")]
    assert [name for name, _ in kept_headers(headers)] == [name.lower() for name in kept]
    assert kept_url("https://u:p@h:1/v1/x?key=secret&alt=sse#f") == "https://h:1/v1/x?alt=sse"


def test_what_is_kept_here_is_kept_by_the_gateway() -> None:
    headers = [("content-type", "a/b"), ("x-stainless-retry-count", "1"), ("x-stepwell-meta-a.b_c", "v"), ("date", "d")]
    import json

    entry = request_entry("e", Request("POST", "https://h/v1/messages", kept_headers(headers), b"", 0))
    assert [tuple(pair) for pair in json.loads(entry.head)["headers"]] == headers


def test_the_credentials_of_mcp_servers_stay_here() -> None:
    anthropic = b'{"mcp_servers":[{"url":"u","authorization_token":"hush"}],"messages":[{"input":{"api_key":"mine"}}]}'
    cleaned = without_secrets(anthropic, "https://api.anthropic.com/v1/messages?beta=true")
    assert b"hush" not in cleaned and b'"mine"' in cleaned
    responses = (
        b'{"tools":[{"type":"mcp","authorization":"hush","headers":{"X-Api-Key":"psst"}}],"prompt_cache_key":"k"}'
    )
    cleaned = without_secrets(responses, "https://api.openai.com/v1/responses")
    assert b"hush" not in cleaned and b"psst" not in cleaned and b'"k"' in cleaned
    assert without_secrets(responses, "https://api.openai.com/v1/chat/completions") == responses


def test_claims() -> None:
    fields = {"prompt_id": "p", "group_id": "g", "split": "eval", "policy_version": 0, "metadata": {"a": "x", "n": 1}}
    assert claims(fields) == [
        ("x-stepwell-prompt", "p"),
        ("x-stepwell-group", "g"),
        ("x-stepwell-split", "eval"),
        ("x-stepwell-policy-version", "0"),
        ("x-stepwell-meta-a", "x"),
        ("x-stepwell-meta-n", "1"),
    ]
    for name in ("runId", "my key", "api-token"):
        with pytest.raises(InvalidRecord) as caught:
            claims({"metadata": {name: 1}})
        assert caught.value.field == f"metadata.{name}"
