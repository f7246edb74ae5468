"""Faults of the wire that others have reported, by the real way: client → proxy → scripted server; spool → ingest → rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import ollama
import pytest
import zstandard
from google.genai import Client as Gemini
from openai import OpenAI

from stepwell.testing import Delivery, Reply, ToolCall

from .conftest import API_KEY, PLAIN, Row, Site, say, texts, tool_calls

TEXT = "ä👋🏽\n数"
CALLS = [ToolCall("wetter", '{"ort":"Zürich 🏔"}', "call_1"), ToolCall("wetter", '{"ort":"東京"}', "call_2")]
CHAT = {"model": "m", "messages": say("hi")}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
GOOGLE = "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent"
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("https://api.openai.com/v1/chat/completions", {**CHAT, "stream": True}),
    "responses": ("https://api.openai.com/v1/responses", {"model": "m", "input": "hi", "stream": True}),
    "anthropic": ("https://api.anthropic.com/v1/messages", {**CHAT, "max_tokens": 4000, "stream": True}),
    "gemini": (f"{GOOGLE}?alt=sse", CONTENTS),
    "gemini array": (GOOGLE, CONTENTS),
    "ollama": ("https://ollama.com/api/chat", CHAT),
    "converse": ("https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.m/converse-stream",
                 {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}),
}  # fmt: skip


def told(row: Row) -> tuple[Any, ...]:
    made = [(id_, name, json.loads(arguments)) for id_, name, arguments in tool_calls(row["response"])]
    return row["dialect"], row["status"], row["finish_reason"], texts(row["response"]), made


@pytest.mark.parametrize("way", WAYS)
def test_pieces_of_any_size_come_to_the_same(site: Site, way: str) -> None:
    """Characters of two to four bytes and CRLFs are cut at every place, in texts and in arguments."""
    url, body = WAYS[way]
    client = site.http(site.name)
    pieces = [None, 1, 2, 3, 5, 7]
    for piece in pieces:
        delivery = Delivery(piece=piece, crlf=piece is not None and piece % 2 == 1, chunk_tokens=6)
        site.script(Reply(TEXT, CALLS, delivery=delivery))
        answer = client.post(url, json=body)
        assert answer.content == site.calls[-1].sent
    whole, *others = map(told, site.rows(len(pieces)))
    assert whole[1] == "ok" and whole[3] == TEXT
    assert [arguments for _, _, arguments in whole[4]] == [json.loads(call.arguments) for call in CALLS]
    ids = [[name for name, *_ in row[4]] for row in (whole, *others)]
    without_ids = [(*row[:4], [call[1:] for call in row[4]]) for row in (whole, *others)]
    assert without_ids == [without_ids[0]] * len(pieces)
    assert ids == [[call.id for call in CALLS]] * len(pieces) or all(len(set(one)) == 2 for one in ids)


def openai_says(site: Site) -> str:
    with OpenAI(api_key=API_KEY, max_retries=0) as client:
        return client.chat.completions.create(model="m", messages=say("hi")).choices[0].message.content or ""


def responses_say(site: Site) -> str:
    with OpenAI(api_key=API_KEY, max_retries=0) as client, client.responses.stream(model="m", input="hi") as events:
        return events.get_final_response().output_text


def anthropic_says(site: Site) -> str:
    with (
        anthropic.Anthropic(api_key="sk-ant", max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=100, messages=say("hi")) as events,
    ):
        return events.get_final_text()


def gemini_says(site: Site) -> str:
    with Gemini(api_key="AIza") as client:
        pieces = client.models.generate_content_stream(model="m", contents="hi")
        return "".join(piece.text or "" for piece in pieces)


def ollama_says(site: Site) -> str:
    client = ollama.Client("https://ollama.com")
    try:
        return "".join(piece.message.content or "" for piece in client.chat("m", say("hi"), stream=True))
    finally:
        client._client.close()


@pytest.mark.parametrize("says", [openai_says, responses_say, anthropic_says, gemini_says, ollama_says])
def test_every_sdk_reads_a_compressed_answer(agent: Site, says: Callable[[Site], str]) -> None:
    """The coding is named to the client as the server named it, and so is it to whoever parses the record."""
    agent.script(Reply(TEXT, delivery=Delivery(gzip=True)))
    assert says(agent) == TEXT
    (row,) = agent.rows(1)
    assert (row["status"], texts(row["response"])) == ("ok", TEXT)


def test_a_request_that_only_its_server_can_read_is_answered_and_said_to_be_unreadable(site: Site) -> None:
    """The call goes through byte for byte; what was asked is kept with the reason, and the trajectory lacks a step."""
    site.script(Reply(TEXT))
    damaged = zstandard.compress(json.dumps(CHAT).encode())[:5] + b"\xff" * 30
    client: httpx2.Client = site.http(site.name)
    answer = client.post(f"{PLAIN}/chat/completions", content=damaged, headers={"content-encoding": "zstd"})
    assert answer.status_code == 400  # the scripted server's own word: it cannot read it either
    assert client.post(f"{PLAIN}/chat/completions", json=CHAT).status_code == 200
    (row,) = site.rows(1)
    assert texts(row["response"]) == TEXT
    (kept,) = site.quarantined()
    assert "the request body cannot be decoded" in kept["reason"]
    assert (kept["request_body"], kept["response_body"]) == (damaged, answer.content)
