"""Rows of a record of steps to drafts, without a model per row: those that are plainly right, as nearly all of them are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.exchange.canonical import Message, canonical_message
from stepwell.sdk.records import Step
from stepwell.warehouse._parse.arrow import JSON, LISTS, OBJECTS
from stepwell.warehouse._parse.arrow_checks import plainly_right
from stepwell.warehouse._parse.draft import Draft
from stepwell.warehouse._parse.histories import Histories, Told
from stepwell.warehouse._parse.keys import answered, begun
from stepwell.warehouse._tables.arrow import Array, row_views
from stepwell.warehouse._tables.json_text import json_of, kept
from stepwell.warehouse._tables.table import LEDGER_KEY

_BLANK = Step.model_construct(
    **{
        name: None if field.is_required() or field.default_factory else field.default
        for name, field in Step.model_fields.items()
    }
)
"""A step of which nothing is said."""
_DEFAULTS = tuple(name for name, value in _BLANK if value is not None)
_NO_PROMPT = Told((), begun(()))
_NAMING = re.compile(r"[^\x00-\x1f\x7f]{1,240}")
"""An id of a record that ids of steps can be made of."""
_BEGINNING = 512
"""Bytes of a prompt by which it is remembered that belongs to no named trajectory."""


class Drafts:
    """The drafts of one record's rows. One thread."""

    def __init__(self, rows: pa.RecordBatch, record_id: str, producer: str, sequence: int, told: Histories) -> None:
        self._rows, self._producer, self._sequence = rows, producer, sequence
        self._told = told
        self._record_id = record_id
        self._objects: dict[bytes, dict[str, Any]] = {}
        """Values of JSON texts: what one step is sampled with, the next is."""
        self._tools: dict[bytes, bytes] = {}

    def __iter__(self) -> Iterator[Draft | None]:
        """For each row its draft, which keeps its reward; None where the row is to be looked at as a `Step`."""
        rows, right = self._rows, self._right()
        names = [name for name in rows.schema.names if name not in JSON and name not in LISTS]
        fields = zip(*(_values(rows[name], right) for name in names), strict=True)
        lists = zip(*(_views(rows, name) for name in LISTS), strict=True)
        prompts, texts = _prompts(rows), zip(*(_pylist(rows, name) for name in JSON if name != "messages"), strict=True)
        both = zip(right, fields, lists, prompts, texts, strict=True)
        for row, (plain, values, arrays, prompt, said) in enumerate(both):
            try:
                yield self._draft(row, dict(zip(names, values, strict=True)), arrays, prompt, said) if plain else None
            except (ValueError, AttributeError, TypeError):  # what it is, the `Step` will say
                yield None

    def _right(self) -> list[bool]:
        right = plainly_right(self._rows)
        if not _NAMING.fullmatch(self._record_id):
            right &= self._rows["step_id"].is_valid().to_numpy(zero_copy_only=False)
        plain: list[bool] = right.tolist()
        return plain

    def _draft(
        self,
        row: int,
        fields: dict[str, Any],
        lists: Sequence[Array | None],
        messages: memoryview | None,
        texts: Sequence[bytes | None],
    ) -> Draft:
        prompt, response, logprobs = lists
        answer, tools, *objects = texts
        for name in _DEFAULTS:
            if name in fields and fields[name] is None:
                del fields[name]
        fields["step_id"] = fields["step_id"] or f"{self._record_id}.{row}"
        if fields["step_id"] == LEDGER_KEY:
            raise ValueError(f"{LEDGER_KEY!r} is the one id that the tables keep for themselves")
        fields.update(zip(OBJECTS, map(self._object, objects), strict=True))
        told, reply = self._prompt(messages, fields), _reply(answer)
        tokens = None
        if prompt is not None and response is not None:
            tokens = np.concatenate((prompt, response), dtype=np.int32, casting="unsafe")  # they fit, as was looked
        return Draft(
            step=_BLANK.model_copy(update=fields),
            producer=self._producer,
            sequence=self._sequence,
            submitted=True,
            tokens=tokens,
            prompt_length=0 if prompt is None else len(prompt),
            logprobs=None if logprobs is None else np.array(logprobs, np.float32),
            messages=told.messages,
            response=b"" if reply is None else kept(reply),
            tools=self._tools_of(tools),
            keys=answered(told.begun, reply),
        )

    def _prompt(self, text: memoryview | None, fields: dict[str, Any]) -> Told:
        if text is None:
            return _NO_PROMPT
        whose = fields.get("trajectory_id") or bytes(text[:_BEGINNING])
        return self._told.read(whose, text, fields.get("model_asked"))

    def _object(self, text: bytes | None) -> Any:
        if text is None:
            return None
        if (value := self._objects.get(text)) is None:
            value = self._objects[text] = json_of(text)
            if not isinstance(value, dict):
                raise TypeError("is no object")
        return value

    def _tools_of(self, text: bytes | None) -> bytes:
        if text is None:
            return b"null"
        if (tools := self._tools.get(text)) is None:
            value = json_of(text)
            if not isinstance(value, list) or set(map(type, value)) - {dict}:
                raise TypeError("is no list of objects")
            tools = self._tools[text] = kept(value)
        return tools


def _reply(text: bytes | None) -> Message | None:
    if text is None:
        return None
    said = json_of(text)
    return canonical_message({"role": "assistant", **({"content": said} if isinstance(said, str) else said)})


def _values(column: pa.Array, right: Sequence[bool]) -> list[Any]:
    """The values of the rows that are right: of others some may be beyond what Python has."""
    if pa.types.is_timestamp(column.type) and not all(right):
        return [value.as_py() if plain else None for value, plain in zip(column, right, strict=True)]
    values: list[Any] = column.to_pylist()
    return values


def _prompts(rows: pa.RecordBatch) -> list[memoryview | None]:
    """The texts of messages where they lie: they are long, and copied when it is known how much of them is kept."""
    if "messages" not in rows.schema.names or rows["messages"].null_count == rows.num_rows:
        return [None] * rows.num_rows
    column = rows["messages"]
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset :].tolist()
    text, valid = memoryview(data).cast("B"), column.is_valid().to_pylist()
    return [text[ends[row] : ends[row + 1]] if valid[row] else None for row in range(len(column))]


def _pylist(rows: pa.RecordBatch, name: str) -> list[bytes | None]:
    return rows[name].to_pylist() if name in rows.schema.names else [None] * rows.num_rows


def _views(rows: pa.RecordBatch, name: str) -> list[Array | None]:
    if name not in rows.schema.names:
        return [None] * rows.num_rows
    column = rows[name]
    if column.values.null_count:  # in rows that are not right
        items = pc.fill_null(column.values, column.values.type.to_pandas_dtype()(0))
        column = type(column).from_arrays(column.offsets, items, mask=column.is_null())
    return row_views(pa.chunked_array([column]))
