"""Full-text search over what was said in steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import lance
import orjson
import pyarrow as pa
from lance.query import FullTextOperator, MatchQuery

from stepwell.errors import InvalidRecord
from stepwell.warehouse._query.engine import connection
from stepwell.warehouse._tables.table import guarded

_SAID = ("messages_suffix", "response")
_PLACE = ["step_id", "producer", "sequence"]
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


def saying(dataset: lance.LanceDataset, marks: Mapping[str, int], text: str, most: int) -> tuple[list[str], bool]:
    """The steps that say every word of `text` in what they added to the conversation, or in their answer; and whether these are all.

    At most `most` of either, the best first. Raises as `search` does.
    """
    words = re.findall(r"\w+", text.lower())
    if not words:
        raise InvalidRecord("text", "there is no word in it")
    return guarded(dataset.uri, _saying, dataset, marks, words, most)


def _saying(
    dataset: lance.LanceDataset, marks: Mapping[str, int], words: list[str], most: int
) -> tuple[list[str], bool]:
    indexed = {name for index in dataset.describe_indices() for name in index.field_names}
    found, whole = dict[str, None](), True
    for column in _SAID:
        rows = _indexed(dataset, column, words, most) if column in indexed else _scanned(dataset, column, words, most)
        whole = whole and rows.num_rows < most
        there = zip(*(rows[name].to_pylist() for name in _PLACE), strict=True)
        found |= dict.fromkeys(id_ for id_, producer, sequence in there if sequence <= marks.get(producer, 0))
    return list(found), whole


def _indexed(dataset: lance.LanceDataset, column: str, words: list[str], most: int) -> pa.Table:
    query = MatchQuery(" ".join(words), column, operator=FullTextOperator.AND)
    return dataset.scanner([*_PLACE, "_score"], limit=most, full_text_query=query).to_table()


def _scanned(dataset: lance.LanceDataset, column: str, words: list[str], most: int) -> pa.Table:
    """Of a table that is too small for an index (see `_upkeep/indices`). Lance itself would compare capitals there."""
    rows = dataset.to_table(columns=[*_PLACE, column], filter=f"ledger IS NULL AND {column} IS NOT NULL")
    plain = rf"lower(regexp_replace({column}, '\\[bfnrt\"/\\]', ' ', 'g'))"
    listed = ", ".join(f"'{word}'" for word in words)  # of letters, digits and underscores
    said = rf"list_has_all(regexp_split_to_array({plain}, '[^\p{{L}}\p{{M}}\p{{N}}_]+'), [{listed}])"
    with connection() as db:
        db.register("rows", rows)
        return db.sql(f"SELECT {', '.join(_PLACE)} FROM rows WHERE {said} LIMIT {most}").to_arrow_table()


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
