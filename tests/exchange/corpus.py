"""Reads the recorded traffic of real servers (`../shared/corpus`), and gives it back in other codings, spellings and pieces."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from stepwell.exchange import Exchange, Request, Response
from stepwell.exchange._encoding import decoded
from stepwell.sdk.records import Step

_CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


def names(*folders: str) -> list[str]:
    """The recordings of these folders, each by its id in EXPECTED and MANIFEST; none where the corpus is absent."""
    found = (path for folder in folders for path in (_CORPUS / "exchanges" / folder).glob("*.json"))
    return sorted(f"{path.parent.name}/{path.stem}" for path in found)


def folders() -> list[str]:
    """The folders of the corpus; none where it is absent."""
    return sorted(path.name for path in (_CORPUS / "exchanges").glob("*"))


def needed(names: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not names, reason="needs the recorded exchanges in ../shared/corpus")


def each_of(names: Iterable[str]) -> pytest.MarkDecorator:
    """A test for every one of these recordings; none at all, without a word, where the corpus is absent: `needed` says it."""
    return pytest.mark.parametrize("name", list(names))


@lru_cache
def _lines(file: str) -> dict[str, dict[str, Any]]:
    lines = (_CORPUS / file).read_text(encoding="utf8").splitlines()
    return {line["id"]: line for line in map(json.loads, lines)}


def expected() -> dict[str, dict[str, Any]]:
    """By recording, what the vendor's own SDK made of it."""
    return _lines("EXPECTED.jsonl")


def manifest() -> dict[str, dict[str, Any]]:
    """By recording, where it is from, and what the tests of its source say of it."""
    return _lines("MANIFEST.jsonl")


def raw(name: str) -> dict[str, Any]:
    """The recording as it is kept. Its request may be null."""
    found: dict[str, Any] = json.loads((_CORPUS / "exchanges" / f"{name}.json").read_text(encoding="utf8"))
    return found


def load(name: str, dialect: str, url: str, asked: bytes | None) -> Exchange:
    """A recording as an exchange. `url` and `asked` stand in for a request that was not recorded; without `asked` it is unknown."""
    request, response = (recording := raw(name))["request"], recording["response"]
    body = base64.b64decode(response["body_b64"]) if "body_b64" in response else response["body"].encode()
    headers = [(key.lower(), value) for key, value in response["headers"]]
    sent = request["body"].encode() if request else asked
    return Exchange(
        id=name,
        dialect=dialect,
        request=Request("POST", request["url"] if request else url, [], sent or b"{}", 1),
        response=Response(response["status"] or 200, headers, body, "complete", 2),
        request_known=sent is not None,
    )


def plain_body(exchange: Exchange) -> bytes:
    """The recorded answer without its coding, which not every recorder left in the headers."""
    return decoded(exchange.response.body, exchange.response.headers).body


def is_stream(body: bytes) -> bool:
    """Whether it is of server-sent events."""
    return body.lstrip().startswith((b"data:", b"event:", b":"))


def answered(exchange: Exchange, body: bytes, coding: str = "", **fields: Any) -> Exchange:
    """The same exchange with another body, in that coding and no other."""
    headers = [(key, value) for key, value in exchange.response.headers if key != "content-encoding"]
    headers += [("content-encoding", coding)] if coding else []
    return replace(exchange, response=replace(exchange.response, **{"body": body, "headers": headers, **fields}))


def packed(exchange: Exchange, body: bytes) -> list[Exchange]:
    """The same exchange with that body in each coding there is."""
    coded = {"gzip": gzip.compress(body), "br": brotli.compress(body, quality=1), "zstd": zstandard.compress(body)}
    return [answered(exchange, other, coding) for coding, other in coded.items()]


def respelled(exchange: Exchange, events: bytes) -> list[Exchange]:
    """The same exchange with those events in other line ends, and without the space after `data:`."""
    unix = events.replace(b"\r\n", b"\n")
    others = (unix.replace(b"\n", b"\r\n"), unix.replace(b"\n", b"\r"), unix.replace(b"data: ", b"data:"))
    return [answered(exchange, other) for other in (unix, *others)]


def recoded(exchange: Exchange, body: bytes) -> list[Exchange]:
    """The same exchange with that body in each coding, and, where it is of events, in other line ends: the steps must be the same."""
    return [*packed(exchange, body), *(respelled(exchange, body) if is_stream(body) else [])]


def cuts(body: bytes, pieces: int = 40) -> range:
    """Places all over a body to cut it at; the first leaves nothing."""
    return range(0, len(body), max(1, len(body) // pieces))


def text(step: Step, kind: str = "text") -> str:
    """What the parts of that kind say, in one."""
    assert step.response is not None
    return "".join(part["text"] for part in step.response["content"] if part["type"] == kind)


def subset(wanted: Any, found: Any) -> bool:
    """Whether all that the SDK has is there, with the same value. It drops nulls, and fields that it does not know."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(subset(value, found.get(key)) for key, value in wanted.items())
    return bool(wanted == found)
