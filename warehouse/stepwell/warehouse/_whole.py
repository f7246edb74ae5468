"""Whole prompts from stored differences. Nothing outside this package knows that they were ever taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.warehouse._arrow import list_array, row_views
from stepwell.warehouse._delta import restore_tokens
from stepwell.warehouse._draft import Ids

ENCODED = ("base_id", "base_depth", "prompt_shared", "prompt_suffix", "messages_shared", "messages_suffix", "tools")
"""The columns that exist for storage only."""

WHOLE = ("prompt_ids", "messages", "tools")
"""What they are restored to: int32 list; JSON text; JSON text. Null where the step has none."""

NEEDED = ("step_id", "response_ids", "response", *ENCODED)


def restore(steps: pa.Table) -> pa.Table:
    """`steps` with its encoded columns replaced by whole ones.

    `steps` holds every base that its rows refer to, directly or not, in any order.

    Raises:
        StoreError: a base is missing or does not fit.
    """
    ids = steps["step_id"].to_pylist()
    order = np.argsort(
        steps["base_depth"].to_numpy(), kind="stable"
    )  # a base is always less deep than what refers to it
    columns: dict[str, list[Any]] = {name: [None] * len(ids) for name in WHOLE}
    prompts = _Restored(steps, ids)
    for row in order.tolist():
        columns["prompt_ids"][row] = prompts.prompt(row)
        columns["messages"][row], columns["tools"][row] = prompts.text(row)
    kept = steps.select([name for name in steps.column_names if name not in ENCODED])
    kept = kept.append_column("prompt_ids", list_array(columns["prompt_ids"], pa.large_list(pa.int32())))
    kept = kept.append_column("messages", pa.array(columns["messages"], pa.large_string()))
    return kept.append_column("tools", pa.array(columns["tools"], pa.large_string()))


class _Restored:
    """Row by row, bases first: each whole sequence is kept for those that refer to it."""

    def __init__(self, steps: pa.Table, ids: list[str]) -> None:
        self._ids = ids
        self._row = {id_: row for row, id_ in enumerate(ids)}
        self._plain = {name: steps[name].to_pylist() for name in ENCODED if name != "prompt_suffix"}
        self._response_text = steps["response"].to_pylist()
        self._suffix = row_views(steps["prompt_suffix"])
        self._response = row_views(steps["response_ids"])
        self._tokens: dict[int, Ids] = {}
        self._messages: dict[int, list[str]] = {}
        self._tools: dict[int, str | None] = {}

    def prompt(self, row: int) -> Ids | None:
        suffix, response = self._suffix[row], self._response[row]
        if suffix is None or response is None:
            return None
        base = self._base(row)
        try:
            whole = restore_tokens(
                self._plain["prompt_shared"][row], suffix, None if base is None else self._tokens.get(base)
            )
        except ValueError as error:
            raise StoreError(f"the prompt of step {self._ids[row]} cannot be restored: {error}") from error
        self._tokens[row] = np.concatenate([whole, response])
        return whole

    def text(self, row: int) -> tuple[str | None, str | None]:
        base = self._base(row)
        tools = self._plain["tools"][row]
        if tools is None and base is not None:
            tools = self._tools[base]
        self._tools[row] = tools
        suffix = self._plain["messages_suffix"][row]
        if suffix is None:
            self._messages[row] = []
            return None, _unless_null(tools)
        shared = self._plain["messages_shared"][row]
        before = self._messages[base][:shared] if base is not None else []
        if len(before) != shared:
            raise StoreError(f"the messages of step {self._ids[row]} cannot be restored: its base has too few")
        own = [orjson.dumps(message).decode() for message in orjson.loads(suffix)]
        response = self._response_text[row]
        self._messages[row] = [*before, *own, response] if response else [*before, *own]
        return f"[{','.join([*before, *own])}]", _unless_null(tools)

    def _base(self, row: int) -> int | None:
        base_id = self._plain["base_id"][row]
        if base_id is None:
            return None
        if base_id not in self._row:
            raise StoreError(f"step {self._ids[row]} refers to step {base_id}, which is not there")
        return self._row[base_id]


def _unless_null(text: str | None) -> str | None:
    return None if text == "null" else text


def readable(names: Mapping[str, object] | list[str]) -> list[str]:
    """The columns that a reader of `steps` sees, in the order of the schema, whole ones included."""
    return [name for name in names if name not in (*ENCODED, "ledger")] + list(WHOLE)
