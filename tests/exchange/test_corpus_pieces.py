"""Recorded answers as capture takes them in, piece by piece (skipped where the recordings are absent)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell.exchange import Exchange, NoStep, Unparseable, exchange_from, parse, request_entry, response_entry
from stepwell.exchange._recorded.exchanges import found_in_json
from stepwell.proxy._tee import Tee
from stepwell.sdk.records import Step
from stepwell.spool import Entry, Record

from .corpus import folders, names, needed, raw

FOLDERS = folders()

pytestmark = needed(FOLDERS)


def exchanges(folder: str) -> list[Exchange]:
    found = (found_in_json(raw(name)).exchange for name in names(folder))
    return [exchange for exchange in found if exchange.dialect]


def meaning(exchange: Exchange) -> list[Step] | str:
    """But for the first token's time, which is what the pieces are kept for."""
    try:
        return [step.model_copy(update={"first_token_at": None}) for step in parse(exchange)]
    except (NoStep, Unparseable) as error:
        return str(error)


def in_pieces(exchange: Exchange, size: int) -> Exchange:
    """As it comes out of the spool when its answer passed the proxy in pieces of so many bytes."""
    tee, body = Tee(len(exchange.response.body)), exchange.response.body
    for start in range(0, len(body), size):
        tee(body[start : start + size])
    marks = tuple(tee.marks)
    answer = replace(exchange.response, body=tee.take(), marks=marks, first_byte_ns=tee.first_ns)
    asked = request_entry(exchange.id, exchange.request, dialect=exchange.dialect, request_known=exchange.request_known)
    return exchange_from(record(asked), record(response_entry(exchange.id, answer, exchange.dialect)))


def record(entry: Entry) -> Record:
    return Record(1, entry.id, entry.kind, entry.ref, 0, entry.head, entry.body)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("folder", FOLDERS)
def test_an_answer_in_pieces_means_the_same(folder: str, size: int) -> None:
    for exchange in exchanges(folder):
        whole = replace(exchange, response=replace(exchange.response, marks=()))
        said, again = meaning(whole), meaning(in_pieces(exchange, size))
        if isinstance(said, list) and isinstance(again, list):
            again = [
                step.model_copy(update={"first_byte_at": first.first_byte_at})
                for step, first in zip(again, said, strict=True)
            ]
        assert again == said, exchange.id
