"""Full-text search over what was said in steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import lance
import orjson
import pyarrow as pa
from lance.query import MatchQuery

from stepwell.errors import InvalidRecord
from stepwell.warehouse._tables.table import guarded

_SAID = ("messages_suffix", "response")
_AROUND = 80
"""Characters of a snippet on either side of the word that was found."""
_MORE = 4
"""What was found and is not committed yet is left out; then so many times more are asked for."""

_SCHEMA = pa.schema(
    [("step_id", pa.string()), ("trajectory_id", pa.string()), ("score", pa.float32()), ("snippet", pa.string())]
)


def search(dataset: lance.LanceDataset, marks: Mapping[str, int], text: str, limit: int) -> pa.Table:
    """The steps that say one of the words of `text`, the best first: step_id, trajectory_id, score (BM25), snippet.

    A step is found by what it added to the conversation, so that a word is found where it was said and not in every turn after
    it. Parts that are stored apart, as those above two kilobytes are, are not searched.

    Raises:
        InvalidRecord: there is no word in `text`, or `limit` is not positive.
        StoreError: the store failed.
    """
    words = re.findall(r"\w+", text.lower())
    if not words:
        raise InvalidRecord("text", "there is no word in it")
    if limit < 1:
        raise InvalidRecord("limit", "at least 1")
    asked, found = limit, list[dict[str, Any]]()
    while True:
        rows = guarded(dataset.uri, _rows, dataset, " ".join(words), asked)
        found = [row for row in rows if row["sequence"] <= marks.get(row["producer"], 0)]
        if len(found) >= limit or len(rows) < asked:
            break
        asked *= _MORE
    answers = [{**row, "score": row["_score"], "snippet": _snippet(row, words)} for row in found[:limit]]
    return pa.Table.from_pylist(answers, schema=_SCHEMA)


def _rows(dataset: lance.LanceDataset, text: str, limit: int) -> list[dict[str, Any]]:
    """The best `limit` of each column, without repetitions, the best first. Without an index Lance looks through all."""
    columns = ["step_id", "trajectory_id", "producer", "sequence", "_score", *_SAID]
    best: dict[str, dict[str, Any]] = {}
    for column in _SAID:
        query = MatchQuery(text, column)
        scanner = dataset.scanner(columns, "ledger IS NULL", limit=limit, full_text_query=query, prefilter=True)
        for row in scanner.to_table().to_pylist():
            if row["step_id"] not in best or best[row["step_id"]]["_score"] < row["_score"]:
                best[row["step_id"]] = row
    return sorted(best.values(), key=lambda row: (-row["_score"], row["step_id"]))


def _snippet(row: Mapping[str, Any], words: list[str]) -> str | None:
    """The first text that holds one of the words, cut short around it."""
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
    for column in _SAID:
        for text in _texts(orjson.loads(row[column] or "null")):
            if place := pattern.search(text):
                start, stop = max(place.start() - _AROUND, 0), place.end() + _AROUND
                cut = re.sub(r"\s+", " ", text[start:stop]).strip()
                return f"{'…' if start else ''}{cut}{'…' if stop < len(text) else ''}"
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
