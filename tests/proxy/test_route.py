"""Other upstreams, and what an engine is asked for."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http

from stepwell.exchange import dialect_for
from stepwell.proxy import Route
from stepwell.proxy._route import Router, add_flags, choose, json_body, redirect

from .conftest import REPLY, StartProxy, StartUpstream, eventually

PATH = "/v1/chat/completions"
ASK = {"model": "policy", "messages": [{"role": "user", "content": "hi"}]}
CHAT = dialect_for("POST", PATH)


def _request(body: bytes, path: str = PATH, **headers: str) -> http.Request:
    request = http.Request.make("POST", f"https://api.example.com{path}")
    for name, value in {"host": "api.example.com", **headers}.items():
        request.headers[name.replace("_", "-")] = value
    request.raw_content = body
    return request


@pytest.mark.parametrize(
    ("prefix", "upstream", "path", "expected"),
    [
        ("", "http://127.0.0.1:8000", "/v1/x?a=1", "http://127.0.0.1:8000/v1/x?a=1"),
        ("", "http://127.0.0.1:8000/llm", "/v1/x", "http://127.0.0.1:8000/llm/v1/x"),
        ("/api", "http://127.0.0.1:8000", "/api/v1/x", "http://127.0.0.1:8000/api/v1/x"),
        ("/api", "http://127.0.0.1:8000/", "/api/v1/x", "http://127.0.0.1:8000/v1/x"),
        ("/api/v1", "https://h/v2/", "/api/v1/x", "https://h/v2/x"),
    ],
)
def test_where_a_request_goes(prefix: str, upstream: str, path: str, expected: str) -> None:
    request = _request(b"", path)
    redirect(request, Route(host="api.example.com", path=prefix, upstream=upstream))
    assert request.url == expected
    assert request.host_header == expected.split("/")[2]


def test_the_first_route_that_fits_counts() -> None:
    routes = [
        Route(host="a.test", path="/x", upstream="http://one"),
        Route(host="a.test", model="policy*", upstream="http://two"),
        Route(host="a.test", upstream="http://three"),
        Route(host="*.test", upstream="http://four"),
    ]
    router = Router(routes)
    assert router.candidates("a.test", 443, "/x/y") == (routes[0],)
    fitting = router.candidates("a.test", 443, "/y")
    assert fitting == (routes[1], routes[2])
    assert choose(fitting, {"model": "policy-7b"}) == routes[1]
    assert choose(fitting, {"model": "other"}) == choose(fitting, {"model": 7}) == choose(fitting, None) == routes[2]
    assert router.candidates("b.test", 443, "/") == (routes[3],)
    assert router.candidates("c.example", 443, "/") == ()


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=4), st.booleans())
def test_what_the_agent_sent_stays_byte_for_byte(fields: dict[str, Any], spaced: bool) -> None:
    class Asks:
        def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:
            return {"return_token_ids": True, "logprobs": 1}

    raw = json.dumps(fields, indent=2 if spaced else None).encode() + (b" \n" if spaced else b"")
    request = _request(raw)
    parsed = json_body(request)
    if parsed is None:  # numbers beyond 64 bits and half surrogate pairs: left alone
        return
    assert add_flags(request, parsed, "vllm", Asks()) == ("return_token_ids", "logprobs")  # type: ignore[arg-type]
    content = request.content or b""
    assert content.startswith(raw.rstrip()[:-1])
    assert json.loads(content) == {**fields, "return_token_ids": True, "logprobs": 1}
    assert request.headers["content-length"] == str(len(content))


def test_a_field_the_agent_set_otherwise_is_replaced_not_doubled() -> None:
    class Asks:
        def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:
            return {"logprobs": True}

    request = _request(b'{"logprobs": false, "n": 1}')
    parsed = json_body(request)
    assert parsed is not None
    add_flags(request, parsed, "vllm", Asks())  # type: ignore[arg-type]
    assert request.content == b'{"logprobs":true,"n":1}'


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff", b'"text"', b"null"])
def test_what_is_no_json_object_is_left_alone(body: bytes) -> None:
    assert json_body(_request(body)) is None


def test_compressed_bodies() -> None:
    plain = json.dumps(ASK).encode()
    request = _request(gzip.compress(plain), content_encoding="gzip")
    parsed = json_body(request)
    assert parsed is not None and CHAT is not None
    added = add_flags(request, parsed, "vllm", CHAT)
    assert "return_token_ids" in added
    assert "content-encoding" not in request.headers
    assert json.loads(request.raw_content or b"").items() >= ASK.items()
    assert json_body(_request(gzip.compress(plain)[:20], content_encoding="gzip")) is None
    assert json_body(_request(plain, content_encoding="zip")) is None


def test_a_bomb_is_not_inflated() -> None:
    bomb = gzip.compress(b'{"a": "' + b"x" * (65 << 20) + b'"}')
    assert json_body(_request(bomb, content_encoding="gzip")) is None


def test_an_engine_that_is_asked_by_headers() -> None:
    request = _request(json.dumps({**ASK, "stream": True}).encode())
    parsed = json_body(request)
    assert parsed is not None and CHAT is not None
    assert add_flags(request, parsed, "sglang", CHAT) == (
        "logprobs",
        "x-sglext-return-input-ids",
        "x-sglext-return-output-ids",
    )
    assert json.loads(request.content or b"") == {**ASK, "stream": True, "logprobs": True}
    assert request.headers["x-sglext-return-input-ids"] == request.headers["x-sglext-return-output-ids"] == "1"


def test_a_routed_host_is_answered_by_the_engine(start_proxy: StartProxy, start_upstream: StartUpstream) -> None:
    engine = start_upstream(tls=False)
    route = {"host": "api.example.com", "upstream": f"http://127.0.0.1:{engine.port}", "engine": "vllm"}
    proxy = start_proxy(routes=(route,))
    client = proxy.client(proxy.url("rollout"))
    assert client.post(f"https://api.example.com{PATH}", json=ASK).json() == REPLY
    assert client.get("https://api.example.com/v1/models").json() == REPLY
    assert client.post(f"https://api.example.com{PATH}", content=b"no json").json() == REPLY
    (_, path, headers, body), models, odd = engine.seen
    assert (path, headers["host"], models[1], odd[3]) == (PATH, f"127.0.0.1:{engine.port}", "/v1/models", b"no json")
    sent = json.loads(body)
    assert sent["return_token_ids"] is True
    records = eventually(lambda: found if len(found := proxy.records()) >= 4 else [])
    first = json.loads(records[0].head)
    assert first["url"] == f"https://api.example.com{PATH}"  # as the agent asked
    assert first["engine"] == "vllm"
    assert set(first["added"]) == sent.keys() - ASK.keys()
    assert records[0].body == body


def test_by_model_and_to_an_upstream_with_its_own_authority(
    start_proxy: StartProxy, start_upstream: StartUpstream, upstream_ca: tuple[Path, Path]
) -> None:
    ours, others = start_upstream(), start_upstream(tls=False)
    proxy = start_proxy(
        routes=(
            {"host": "api.example.com", "model": "policy*", "upstream": ours.url, "ca": str(upstream_ca[0])},
            {"host": "api.example.com", "upstream": f"http://127.0.0.1:{others.port}"},
        )
    )
    client = proxy.client(http2=True)
    for model in ("policy-7b", "gpt", "policy"):
        client.post(f"https://api.example.com{PATH}", json={**ASK, "model": model}).raise_for_status()
    client.get("https://api.example.com/v1/models").raise_for_status()
    assert [json.loads(body)["model"] for _, _, _, body in ours.seen] == ["policy-7b", "policy"]
    assert [path for _, path, _, _ in others.seen] == [PATH, "/v1/models"]
