"""Faults of framing that others have reported, in every dialect: line ends, codings, and streams that stop anywhere.

The streams are those of the scripted server, so that what an answer should have come to is known without reading one.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import brotli
import httpx2
import pytest
import zstandard

from stepwell.exchange import End, Exchange, Request, Response, Unparseable, parse
from stepwell.sdk.records import Step
from stepwell.testing import Delivery, Reply, ScriptedApp, ToolCall

_CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
_GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
_BLOCKS = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
_CLAUDE = {**_CHAT, "max_tokens": 4000}
_INVOKE = {"messages": _CHAT["messages"], "max_tokens": 4000, "anthropic_version": "bedrock-2023-05-31"}
WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "chat": ("openai.chat", "/v1/chat/completions", {**_CHAT, "stream": True}),
    "responses": ("openai.responses", "/v1/responses", {"model": "m", "input": "hi", "stream": True}),
    "completions": ("openai.completions", "/v1/completions", {"model": "m", "prompt": "hi", "stream": True}),
    "anthropic": ("anthropic.messages", "/v1/messages", {**_CLAUDE, "stream": True}),
    "gemini": ("gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", _GEMINI),
    "gemini array": ("gemini", "/v1beta/models/m:streamGenerateContent", _GEMINI),
    "ollama chat": ("ollama.chat", "/api/chat", _CHAT),
    "ollama generate": ("ollama.generate", "/api/generate", {"model": "m", "prompt": "hi"}),
    "converse": ("bedrock.converse", "/model/anthropic.m/converse-stream", _BLOCKS),
    "invoke": ("bedrock.invoke", "/model/anthropic.m/invoke-with-response-stream", _INVOKE),
}
EVENTS = ["chat", "responses", "completions", "anthropic", "gemini"]
TEXTS_ONLY = frozenset({"completions", "ollama generate"})
ARGUMENTS = '{"ort":"Zürich 🏔","tage":[1,2,3]}'
ways = pytest.mark.parametrize("way", WAYS)


@dataclass(frozen=True)
class Stream:
    """A whole stream of one dialect."""

    way: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def step(
        self, body: bytes | None = None, end: End = "complete", coding: str = "", media: str | None = None
    ) -> Step:
        """The step of the stream, or of another body in its place."""
        dialect, path, asked = WAYS[self.way]
        headers = [(name, media if name == "content-type" and media else value) for name, value in self.headers]
        coded = [("content-encoding", coding)] if coding else []
        request = Request("POST", f"https://vendor{path}", [], json.dumps(asked).encode(), 1)
        response = Response(200, headers + coded, self.body if body is None else body, end, 2)
        (step,) = parse(Exchange("x", dialect, request, response))
        return step


@cache
def stream_of(way: str) -> Stream:
    reply = Reply("Grüße 👋🏽 aus 東京", delivery=Delivery(chunk_tokens=6))
    if way not in TEXTS_ONLY:
        calls = [ToolCall("wetter", ARGUMENTS, "call_1"), ToolCall("zeit", '{"ö":1}', "call_2")]
        reply = Reply(reply.content, calls, "Hm, 🤔", delivery=reply.delivery)
    app = ScriptedApp(lambda _: reply)

    async def post() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app.asgi)
        async with httpx2.AsyncClient(transport=transport, base_url="http://engine") as client:
            return await client.post(WAYS[way][1], json=WAYS[way][2])

    answer = asyncio.run(post())
    headers = tuple((name.lower(), value) for name, value in answer.headers.items())
    return Stream(way, headers, answer.content)


def parts_of(step: Step, kind: str) -> list[dict[str, Any]]:
    assert step.response is not None
    return [part for part in step.response["content"] if part["type"] == kind]


def text_of(step: Step, kind: str = "text") -> str:
    return "".join(part.get("text") or "" for part in parts_of(step, kind))


@ways
def test_a_whole_stream_is_what_the_server_said(way: str) -> None:
    step = stream_of(way).step()
    assert (step.status, text_of(step)) == ("ok", "Grüße 👋🏽 aus 東京")
    if way not in TEXTS_ONLY:
        made = [(part["name"], json.loads(part["arguments"])) for part in parts_of(step, "tool_call")]
        assert made == [("wetter", json.loads(ARGUMENTS)), ("zeit", {"ö": 1})]
        assert text_of(step, "reasoning") == "Hm, 🤔"


def in_lines(line: bytes) -> bytes:
    """The JSON of a data line over several data lines."""
    if not line.startswith(b"data: {"):
        return line
    return b"\n".join(b"data: " + part for part in json.dumps(json.loads(line[6:]), indent=1).encode().split(b"\n"))


LINES: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "CR": lambda body: body.replace(b"\n", b"\r"),
    "no space": lambda body: body.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
    "CRLF, no space": lambda body: LINES["no space"](body).replace(b"\n", b"\r\n"),
    "mixed": lambda body: b"".join(
        line + (b"\r\n", b"\r", b"\n")[place % 3 if line else 0] for place, line in enumerate(body.split(b"\n"))
    ),
    "comments": lambda body: b"\xef\xbb\xbf: ping\n\n" + body.replace(b"\n\n", b"\nid: 7\nretry: 5\n\n:\n\n"),
    "one event in several data lines": lambda body: b"\n".join(map(in_lines, body.split(b"\n"))),
}


@pytest.mark.parametrize("way", EVENTS)
@pytest.mark.parametrize("lines", LINES)
def test_line_ends_change_nothing(way: str, lines: str) -> None:
    stream = stream_of(way)
    rewritten = LINES[lines](stream.body.replace(b"\r\n", b"\n"))
    assert rewritten != stream.body
    assert stream.step(rewritten) == stream.step()


@pytest.mark.parametrize("way", EVENTS)
def test_a_stream_that_stops_between_cr_and_lf_has_its_event(way: str) -> None:
    stream = stream_of(way)
    body = LINES["CRLF"](stream.body.replace(b"\r\n", b"\n"))
    for place in [place for place in range(len(body)) if body.startswith(b"\n", place)]:
        cut, before = stream.step(body[:place], "upstream_error"), stream.step(body[: place + 1], "upstream_error")
        assert cut == before


@ways
@pytest.mark.parametrize("media", ["", "text/plain", "application/octet-stream"])
def test_an_odd_type_changes_nothing(way: str, media: str) -> None:
    stream = stream_of(way)
    assert stream.step(media=media) == stream.step()


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def members(body: bytes) -> bytes:
    return b"".join(gzip.compress(body[start : start + 100]) for start in range(0, len(body), 100))


def brotli_bytes(body: bytes) -> bytes:
    packed: bytes = brotli.compress(body, quality=3)
    return packed


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip of many members": ("gzip", members),
    "gzip nobody speaks of": ("", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", brotli_bytes),
    "zstd": ("zstd", zstandard.compress),
    "two": ("gzip, br", lambda body: brotli_bytes(gzip.compress(body))),
}


@ways
@pytest.mark.parametrize("name", CODINGS)
def test_codings_change_nothing(way: str, name: str) -> None:
    coding, pack = CODINGS[name]
    stream = stream_of(way)
    assert stream.step(pack(stream.body), coding=coding) == stream.step()


@ways
@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("end", ["upstream_error", "client_disconnect"])
def test_a_coded_stream_that_was_cut_is_kept_with_what_decodes(way: str, name: str, end: End) -> None:
    coding, pack = CODINGS[name]
    stream, packed = stream_of(way), pack(stream_of(way).body)
    for share in (0, 1, 30, 60):
        step = stream.step(packed[: len(packed) * share // 100], end, coding)
        assert step.status in ("truncated", "client_disconnect")
        assert (step.trainable, step.finish_reason) == (False, None)
        assert step.untrainable_reason
        assert "Grüße 👋🏽 aus 東京".startswith(text_of(step))


@ways
def test_a_coded_stream_that_is_damaged_is_told_from_one_that_was_cut(way: str) -> None:
    """All of it came and cannot be read: no step is made up, and ingest keeps the bytes. Where it broke off, a step says so."""
    stream = stream_of(way)
    packer = zlib.compressobj(wbits=31)
    half = len(stream.body) // 2
    packed = packer.compress(stream.body[:half]) + packer.flush(zlib.Z_SYNC_FLUSH) + b"\xff" * 50
    with pytest.raises(Unparseable, match="response body cannot be decoded: not valid gzip"):
        stream.step(packed, coding="gzip")
    step = stream.step(packed, "upstream_error", "gzip")
    assert (step.status, step.trainable, step.finish_reason) == ("truncated", False, None)


@ways
@pytest.mark.parametrize("end", ["complete", "upstream_error", "client_disconnect"])
def test_a_stream_without_its_end_is_never_taken_for_whole(way: str, end: End) -> None:
    """Cut at every event, at the bytes beside it, and inside. A transfer may even end in order where the stream does not."""
    stream = stream_of(way)
    whole, body = stream.step(), stream.body
    calls = [(part["id"], part["name"]) for part in parts_of(whole, "tool_call")]
    marks = {place for place in range(len(body)) if body.startswith((b"\n", b"data:", b":event-type"), place)}
    places = {place + by for place in marks for by in (-1, 0, 1, 2)} | set(range(0, len(body), 97))
    kept = 0
    for place in sorted(place for place in places if 0 <= place < len(body)):
        try:
            step = stream.step(body[:place], end)
        except Unparseable:
            assert end == "complete" and not kept  # nothing of an answer had come yet: it is kept with its bytes
            continue
        kept += 1
        assert step.finish_reason in (None, whole.finish_reason)
        if step.finish_reason is None:
            assert step.status != "ok" and not step.trainable and step.untrainable_reason
        assert (text_of(whole)).startswith(text_of(step))
        assert text_of(whole, "reasoning").startswith(text_of(step, "reasoning"))
        for number, part in enumerate(parts_of(step, "tool_call")):
            expected = parts_of(whole, "tool_call")[number]
            assert isinstance(part["arguments"], str) and expected["arguments"].startswith(
                part["arguments"].rstrip("}")
            )
            assert not part.get("name") or (part["id"], part["name"]) == calls[number]
    assert kept > 2
