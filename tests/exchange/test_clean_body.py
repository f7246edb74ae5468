"""Credentials for MCP servers inside a request's body."""

from __future__ import annotations

import json
import secrets
import zlib

import orjson
import pytest
import zstandard

from stepwell.exchange import Exchange, Request, Response, parse, request_entry, response_entry
from stepwell.exchange import _clean_body as clean_body_module
from stepwell.exchange._clean_body import clean_body

ASKED = {
    "model": "m",
    "max_tokens": 5,
    "messages": [
        {"role": "user", "content": 'send "authorization": "mine" with it'},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": '"mcp"'}}]},
    ],
    "mcp_servers": [{"type": "url", "url": "https://x", "name": "s", "authorization_token": 'canary-"quoted\\'}],
}
TOOLS = {"tools": [{"type": "mcp", "authorization": "canary-1", "headers": {"X-Api-Key": "canary-2", "accept": "a"}}]}


@pytest.mark.parametrize(("dialect", "asked"), [("anthropic.messages", ASKED), ("openai.responses", TOOLS)])
@pytest.mark.parametrize("indent", [None, 2])
def test_tokens_for_servers_are_removed_and_nothing_else(dialect: str, asked: object, indent: int | None) -> None:
    body = json.dumps(asked, indent=indent).encode()
    cleaned = clean_body(body, dialect)
    assert b"canary" not in cleaned
    expected = json.loads(json.dumps(asked).replace(r"canary-\"quoted\\", "[removed]"))
    if dialect == "openai.responses":
        expected = {
            "tools": [
                {"type": "mcp", "authorization": "[removed]", "headers": {"X-Api-Key": "[removed]", "accept": "a"}}
            ]
        }
    assert json.loads(cleaned) == expected


@pytest.mark.parametrize(
    "name",
    ["Authorization", "Api-Key", "X-Api-Key", "private-token", "X-Custom-Secret", "Cookie", "x-db-password", "apikey"],
)
def test_headers_for_a_server_are_removed_whatever_they_are_called(name: str) -> None:
    tool = {"type": "mcp", "headers": {name: "canary", "accept": "a"}}
    asked = {"prompt_cache_key": "k", "tools": [tool]}
    cleaned = json.loads(clean_body(json.dumps(asked).encode(), "openai.responses"))
    assert cleaned == {"prompt_cache_key": "k", "tools": [{**tool, "headers": {name: "[removed]", "accept": "a"}}]}


def test_what_a_tool_was_called_with_is_content() -> None:
    used = {"type": "tool_use", "id": "t", "name": "f", "input": {"authorization": "of the call", "x-api-key": "k"}}
    asked = {**ASKED, "messages": [{"role": "assistant", "content": [used]}]}
    assert json.loads(clean_body(json.dumps(asked).encode(), "anthropic.messages"))["messages"] == asked["messages"]


@pytest.mark.parametrize("coding", [None, "zstd"])
def test_an_answer_that_repeats_the_tools_has_none_either(coding: str | None) -> None:
    answer = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [], **TOOLS}
    body, headers = json.dumps(answer).encode(), [("content-encoding", coding)] if coding else []
    response = Response(200, headers, zstandard.compress(body) if coding else body, "complete", 2)
    entry = response_entry("x", response, "openai.responses")
    assert b"canary" not in entry.body
    assert b"[removed]" in entry.body, "kept plain"
    assert b"content-encoding" not in entry.head
    request = Request("POST", "https://x/v1/responses", [], b'{"model": "m", "input": "hi"}', 1)
    (step,) = parse(Exchange("x", "openai.responses", request, response))
    assert "canary" not in step.model_dump_json()


def test_other_bodies_stay_as_they_are() -> None:
    for body in (b'{"authorization": "of a tool"}', b"", b"\x00\xff"):
        assert clean_body(body, "anthropic.messages") == body
    assert clean_body(json.dumps(TOOLS).encode(), "openai.chat") == json.dumps(TOOLS).encode()
    assert clean_body(json.dumps(TOOLS).encode(), None) == json.dumps(TOOLS).encode()


@pytest.mark.parametrize("end", ["", "\\", '"', '"}'])
def test_a_token_that_was_cut_is_removed_too(end: str) -> None:
    cut = '{"mcp_servers": [{"authorization_token": "canary' + end
    assert b"canary" not in clean_body(cut.encode(), "anthropic.messages")


def test_neither_the_spool_nor_a_step_has_them() -> None:
    answer = {
        "id": "r", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "ho"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    raw = json.dumps(ASKED).encode()
    plain = Request("POST", "https://api.anthropic.com/v1/messages", [], raw, 1)
    assert b"canary" not in request_entry("x", plain, dialect="anthropic.messages").body
    packed = Request(plain.method, plain.url, [("content-encoding", "zstd")], zstandard.compress(raw), 1)
    response = Response(200, [], json.dumps(answer).encode(), "complete", 2)
    entry = request_entry("x", packed, dialect="anthropic.messages")
    assert entry.body == clean_body(raw, "anthropic.messages")
    assert b"content-encoding" not in entry.head
    (step,) = parse(Exchange("x", "anthropic.messages", packed, response))
    assert "canary" not in step.model_dump_json()
    assert step.response is not None and step.response["content"][0]["text"] == "ho"


def test_a_compressed_body_without_any_stays_as_it_came() -> None:
    body = zstandard.compress(b'{"messages": [], "input": "mcp"}')
    for dialect in ("anthropic.messages", "openai.responses", "openai.chat", None):
        request = Request("POST", "https://x/v1/responses", [("Content-Encoding", "zstd")], body, 1)
        entry = request_entry("x", request, dialect=dialect)
        assert entry.body == body
        assert orjson.loads(entry.head)["headers"] == [["content-encoding", "zstd"]]


def test_of_a_compressed_body_that_is_too_large_the_rest_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_body_module, "MOST", 1000)
    body = b'{"input": "' + b"long " * 1000 + b'", "tools": [{"type": "mcp", "authorization": "canary"}]}'
    request = Request("POST", "https://x/v1/responses", [("content-encoding", "zstd")], zstandard.compress(body), 1)
    entry = request_entry("x", request, dialect="openai.responses")
    assert entry.body == body[:1000]
    assert orjson.loads(entry.head)["truncated"] is True
    small = Request("POST", "https://x/v1/responses", [("content-encoding", "zstd")], zstandard.compress(b"{}"), 1)
    assert orjson.loads(request_entry("x", small, dialect="openai.responses").head)["truncated"] is False


def test_a_compressed_body_that_breaks_off_is_cleaned_as_far_as_it_goes() -> None:
    asked = json.dumps(ASKED | {"metadata": {"x": secrets.token_hex(4000)}}).encode()
    body = zlib.compress(asked, wbits=31)[:-2000]
    request = Request("POST", "https://x/v1/messages", [("content-encoding", "gzip")], body, 1)
    entry = request_entry("x", request, dialect="anthropic.messages")
    assert b"[removed]" in entry.body
    assert b"canary" not in entry.body
