"""Rows of a record of steps to drafts, without a model per row: those that are plainly right, as nearly all of them are."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.exchange.canonical import written
from stepwell.sdk.records import Step
from stepwell.warehouse._parse.arrow import IDS, JSON, LISTS, OBJECTS
from stepwell.warehouse._parse.arrow_checks import plainly_right
from stepwell.warehouse._parse.draft import Draft
from stepwell.warehouse._parse.histories import Histories, Told
from stepwell.warehouse._parse.keys import answered, begun
from stepwell.warehouse._tables.arrow import Array, row_views
from stepwell.warehouse._tables.json_text import json_of, kept
from stepwell.warehouse._tables.table import LEDGER_KEY

_BLANK: dict[str, Any] = {
    name: None if field.is_required() or field.default_factory else field.default
    for name, field in Step.model_fields.items()
}
"""Fields of a step of which nothing is said."""
_ALL_FIELDS = set(_BLANK)
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
        if not rows.num_rows:
            return
        same, own = self._fields(right)
        lists = zip(*(_views(rows, name) for name in IDS), _views(rows, "logprobs", copied=True), strict=True)
        texts = zip(_prompts(rows), *(_pylist(rows, name) for name in ("response", "tools")), strict=True)
        objects = [(name, _pylist(rows, name)) for name in OBJECTS if name in rows.schema.names]
        for row, (plain, arrays, said) in enumerate(zip(right, lists, texts, strict=True)):
            if not plain:
                yield None
                continue
            fields = same.copy()
            for name, values in own:
                fields[name] = values[row]
            try:
                for name, values in objects:
                    fields[name] = self._object(values[row])
                yield self._draft(fields, *arrays, *said)
            except (ValueError, AttributeError, TypeError):  # what it is, the `Step` will say
                yield None

    def _right(self) -> list[bool]:
        right = plainly_right(self._rows)
        if not _NAMING.fullmatch(self._record_id):
            right &= self._rows["step_id"].is_valid().to_numpy(zero_copy_only=False)
        plain: list[bool] = right.tolist()
        return plain

    def _fields(self, right: Sequence[bool]) -> tuple[dict[str, Any], list[tuple[str, list[Any]]]]:
        """What all steps of the record say, and the columns of what each says for itself."""
        same, own = _BLANK.copy(), list[tuple[str, list[Any]]]()
        for name in self._rows.schema.names:
            if name in JSON or name in LISTS:
                continue
            values, default = _values(self._rows[name], right), _BLANK[name]
            if name == "step_id":
                values = [id_ or f"{self._record_id}.{row}" for row, id_ in enumerate(values)]
            elif default is not None:
                values = [default if value is None else value for value in values]
            if name == "reward" or values.count(values[0]) != len(values):  # 0.0 and -0.0 are not the same
                own.append((name, values))
            else:
                same[name] = values[0]
        return same, own

    def _draft(
        self,
        fields: dict[str, Any],
        prompt: Array | None,
        response: Array | None,
        logprobs: Array | None,
        messages: memoryview | None,
        answer: bytes | None,
        tools: bytes | None,
    ) -> Draft:
        if fields["step_id"] == LEDGER_KEY:
            raise ValueError(f"{LEDGER_KEY!r} is the one id that the tables keep for themselves")
        told, reply = _NO_PROMPT, b""
        whose: Hashable = fields["trajectory_id"] or (None if messages is None else bytes(messages[:_BEGINNING]))
        if messages is not None:
            told = self._told.read(whose, messages, fields["model_asked"])
        if answer is None:
            keys = answered(told.begun, None)
        else:
            said = json_of(answer)
            message, reply, form = written({"role": "assistant", **({"content": said} if type(said) is str else said)})
            keys = answered(told.begun, message, form)
        tokens = None
        if prompt is not None and response is not None:
            tokens = self._told.ids.join(whose, prompt, response)
        return Draft(
            _step(fields),
            self._producer,
            self._sequence,
            True,
            tokens,
            0 if prompt is None else len(prompt),
            logprobs,
            told.messages,
            reply,
            b"null" if tools is None else self._tools_of(tools),
            keys,
        )

    def _object(self, text: bytes | None) -> Any:
        if text is None:
            return None
        if (value := self._objects.get(text)) is None:
            value = self._objects[text] = json_of(text)
            if not isinstance(value, dict):
                raise TypeError("is no object")
        return value

    def _tools_of(self, text: bytes) -> bytes:
        if (tools := self._tools.get(text)) is None:
            value = json_of(text)
            if not isinstance(value, list) or set(map(type, value)) - {dict}:
                raise TypeError("is no list of objects")
            tools = self._tools[text] = kept(value)
        return tools


def _step(fields: dict[str, Any]) -> Step:
    """A step of fields that are known to be right: what `Step.model_construct` makes, in a twentieth of the time."""
    step = object.__new__(Step)
    put = object.__setattr__
    put(step, "__dict__", fields)
    put(step, "__pydantic_fields_set__", _ALL_FIELDS)
    put(step, "__pydantic_extra__", None)
    put(step, "__pydantic_private__", None)
    return step


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


def _views(rows: pa.RecordBatch, name: str, *, copied: bool = False) -> list[Array | None]:
    """The rows of a list column where they lie, or `copied` as float32, all at once: for each by itself that takes longer."""
    if name not in rows.schema.names:
        return [None] * rows.num_rows
    column = rows[name]
    items = column.values
    if items.null_count:  # in rows that are not right, as numbers are that overflow
        items = pc.fill_null(items, items.type.to_pandas_dtype()(0))
    if copied:
        with np.errstate(over="ignore"):
            items = pa.array(items.to_numpy().astype(np.float32))
    if items is not column.values:
        mask = column.is_null() if column.null_count else None
        column = (pa.LargeListArray if pa.types.is_large_list(column.type) else pa.ListArray).from_arrays(
            column.offsets, items, mask=mask
        )
    return row_views(pa.chunked_array([column]))
