"""An exchange through the spool and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell.exchange import (
    REQUEST,
    RESPONSE,
    End,
    Exchange,
    Request,
    Response,
    exchange_from,
    parse,
    request_entry,
    response_entry,
)
from stepwell.exchange._raw import header, with_bodies
from stepwell.spool import LOST, Record, Spool, SpoolReader

ASKED = Request(
    "POST",
    "https://user:secret@host/v1/chat/completions?key=secret&api-version=1",
    [("Content-Type", "application/json"), ("Authorization", "Bearer secret"), ("X-Request-Id", "r")],
    b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}',
    1_700_000_000_000_000_001,
    "HTTP/2.0",
)
BODY = b'{"id": "r", "choices": [{"index": 0, "message": {"content": "ho"}, "finish_reason": "stop"}]}'
ANSWERED = Response(
    200,
    [("content-type", "application/json"), ("Set-Cookie", "secret")],
    BODY,
    "complete",
    1_700_000_000_000_000_003,
    first_byte_ns=1_700_000_000_000_000_002,
)


def through_spool(path: Path, asked: Request, answered: Response | None, **context: Any) -> tuple[Exchange, bytes]:
    """The exchange as a spool gives it back (its answer lost when there is none), and everything that is on the disk."""
    with Spool(path) as spool:
        spool.append([request_entry("x", asked, **context)])
        if answered is not None:
            spool.append([response_entry("x", answered)])
    with Spool(path), SpoolReader(path) as reader:
        request, response = reader.read(0)
        assert (request.kind, response.kind) == (REQUEST, RESPONSE if answered else LOST)
        assert response.ref == request.id == "x" and not reader.orphans()
    return exchange_from(request, response), b"".join(part.read_bytes() for part in path.parent.iterdir())


def test_an_exchange_comes_back_without_what_is_secret(tmp_path: Path) -> None:
    context = {"dialect": "openai.chat", "trajectory_id": "t", "engine": "vllm", "added": ["logprobs"], "client": "sdk"}
    exchange, on_disk = through_spool(tmp_path / "p.db", ASKED, ANSWERED, **context)
    assert exchange == Exchange(
        id="x",
        dialect="openai.chat",
        request=Request(
            "POST",
            "https://host/v1/chat/completions?api-version=1",
            [("content-type", "application/json"), ("x-request-id", "r")],
            ASKED.body,
            ASKED.at_ns,
            "HTTP/2.0",
        ),
        response=Response(
            200,
            [("content-type", "application/json")],
            BODY,
            "complete",
            ANSWERED.at_ns,
            first_byte_ns=ANSWERED.first_byte_ns,
        ),
        trajectory_id="t",
        engine="vllm",
        added=("logprobs",),
        client="sdk",
    )
    assert b"secret" not in on_disk
    (step,) = parse(exchange)
    assert (step.step_id, step.trajectory_id, step.engine, step.status) == ("x.0", "t", "vllm", "ok")


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    exchange, _ = through_spool(tmp_path / "p.db", ASKED, ANSWERED, dialect="openai.chat")
    assert (exchange.trajectory_id, exchange.engine, exchange.added, exchange.client) == (None, None, (), "proxy")


@pytest.mark.parametrize("end", ["client_disconnect", "upstream_error", "aborted"])
def test_how_it_ended_comes_back(end: End, tmp_path: Path) -> None:
    answered = Response(None, [], b"\xff\0", end, 7, error="reset", truncated=True)
    exchange, _ = through_spool(tmp_path / "p.db", ASKED, answered, dialect="openai.chat")
    assert exchange.response == answered


def test_a_call_whose_proxy_died_is_aborted(tmp_path: Path) -> None:
    exchange, _ = through_spool(tmp_path / "p.db", ASKED, None, dialect="openai.chat")
    assert (exchange.response.status, exchange.response.end) == (None, "aborted")
    (step,) = parse(exchange)
    assert (step.status, step.trainable) == ("aborted", False)
    assert "capturing process" in (step.untrainable_reason or "")


def test_text_that_is_no_unicode_is_kept_as_well_as_it_can_be(tmp_path: Path) -> None:
    """A peer may put any bytes into a header; nothing of the call may be lost for that."""
    odd = b"caf\xe9 \xf0\x9f\xa7\xb5".decode("utf-8", "surrogateescape")
    asked = Request("POST", "http://h/" + odd, [("user-agent", odd)], ASKED.body, 1)
    answered = Response(200, [("server", odd)], BODY, "complete", 2, error=odd)
    exchange, _ = through_spool(tmp_path / "p.db", asked, answered, dialect="openai.chat")
    ((name, value),) = exchange.request.headers
    assert name == "user-agent" and value.startswith("caf\ufffd") and value.endswith(" 🧵")
    assert exchange.response.headers[0][1] == exchange.response.error == value
    assert parse(exchange)[0].status == "ok"


def test_a_lost_record_needs_no_head() -> None:
    request = Record(1, "x", REQUEST, None, 5, request_entry("x", ASKED, dialect="openai.chat").head, ASKED.body)
    assert exchange_from(request, Record(2, "x.lost", LOST, "x", 9, b"", b"")).response.at_ns == 9


def test_headers_by_name() -> None:
    headers = [("a", "1"), ("b", "2"), ("a", "3")]
    assert (header(headers, "a"), header(headers, "c")) == ("1", "")


def test_other_bodies() -> None:
    exchange = Exchange("x", "openai.chat", ASKED, ANSWERED)
    other = with_bodies(exchange, b"q", b"r")
    assert (other.request.body, other.response.body) == (b"q", b"r")
    assert (exchange.request.body, exchange.response.body) == (ASKED.body, BODY)
    assert with_bodies(exchange, exchange.request.body, exchange.response.body) is exchange
    assert with_bodies(exchange, exchange.request.body, b"r").response.body == b"r"
    assert with_bodies(exchange, b"q", exchange.response.body).request.body == b"q"
