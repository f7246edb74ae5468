"""Steps that are differences to steps which go: made to stand without them."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepwell.errors import StoreError
from stepwell.warehouse._encode.content import hashes_of
from stepwell.warehouse._encode.payloads import Lookup, Payload, PayloadMemory, outsourced, outsourced_tools
from stepwell.warehouse._restore.whole import WHOLE, restore, restore_some
from stepwell.warehouse._tables.schema import STEPS


def rebased(
    stored: pa.Table, gone: Collection[str], payloads: Lookup, broken: MutableMapping[str, str]
) -> tuple[pa.Table, dict[str, pa.Table]]:
    """New rows for those steps of `stored` that stay and have a step of `gone` as base or parent.

    With them, by id, rows of `payloads` that they need and that are not there: in a warehouse that was migrated, large parts are in place.

    `stored`: every column of all steps of some trajectories. A step whose base goes is stored whole; what refers to it in turn need not
    be touched. One whose parent goes has none. What cannot be read as it is stays out, and gets its reason in `broken`.

    Raises:
        StoreError: a new row would not read back as the old one.
    """
    stays = ~_among(stored["step_id"], gone)
    based = stays & _among(stored["base_id"], gone)
    whole = restore_some(stored.select(_columns(stored)), based, WHOLE, payloads, broken)
    frames = {row["step_id"]: row for row in whole.select(["step_id", "response", *WHOLE]).to_pylist()}
    rows = stored.filter(pa.array(based | (stays & _among(stored["parent_id"], gone)))).to_pylist()
    kept = [row for row in rows if row["step_id"] not in broken]
    apart: list[Payload] = []
    for row in kept:
        if row["parent_id"] in gone:
            row["parent_id"] = None
        if row["base_id"] in gone:
            frame, found = _frame(frames[row["step_id"]])
            row |= frame
            apart += found
    made = pa.Table.from_pylist(kept, schema=STEPS.schema)
    brought = _lacking(apart, payloads)
    own = {id_: row["data"][0].as_py() for id_, row in brought.items()}
    _check(made.filter(pc.field("base_id").is_null()), lambda ids: {**payloads(ids), **own})
    return made, brought


def _lacking(apart: Sequence[Payload], payloads: Lookup) -> dict[str, pa.Table]:
    """By id, a row for each payload that is not stored. It is no producer's: the marks of `payloads` may not be as far as the step."""
    there = payloads({one.payload_id for one in apart})
    rows = PayloadMemory().rows([([one for one in apart if one.payload_id not in there], "", 0)])
    for name in ("producer", "sequence"):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pa.nulls(rows.num_rows, rows.schema.field(place).type))
    return {id_: rows.slice(place, 1) for place, id_ in enumerate(rows["payload_id"].to_pylist())}


def _frame(whole: dict[str, Any]) -> tuple[dict[str, Any], list[Payload]]:
    """What a row stores of a step that stands alone, and what it stores apart."""
    found, own = list[Payload](), list[bytes]()
    for message in [
        *orjson.loads(whole["messages"] or "[]"),
        *([orjson.loads(whole["response"])] if whole["response"] else []),
    ]:
        text, apart = outsourced(orjson.dumps(message))
        own.append(text)
        found += apart
    if whole["response"]:
        own.pop()  # it is stored as it was
    tools = whole["tools"]
    if tools is not None:
        text, apart = outsourced_tools(tools.encode())
        tools = text.decode()
        found += apart
    frame = {
        "base_id": None,
        "base_depth": 0,
        "prompt_ops": None if whole["prompt_ids"] is None else [],
        "prompt_suffix": whole["prompt_ids"],
        "messages_ops": None if whole["messages"] is None else [],
        "messages_suffix": None if whole["messages"] is None else (b"[" + b",".join(own) + b"]").decode(),
        "tools": tools,
        "payload_ids": list(dict.fromkeys(payload.payload_id for payload in found)) or None,
    }
    return frame, found


def _check(rows: pa.Table, payloads: Lookup) -> None:
    whole = restore(rows.select(_columns(rows)), WHOLE, payloads)
    for id_, now, then in zip(
        rows["step_id"].to_pylist(), hashes_of(whole), rows["content_hash"].to_pylist(), strict=True
    ):
        if now != then:
            raise StoreError(
                f"step {id_} would not read the same without its base; nothing was changed: run `stepwell verify`"
            )


def _columns(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name != "ledger"]


def _among(column: pa.ChunkedArray, ids: Collection[str]) -> NDArray[np.bool_]:
    wanted = pc.SetLookupOptions(value_set=pa.array(list(ids), pa.string()), skip_nulls=True)
    found: NDArray[np.bool_] = pc.call_function("is_in", [column], wanted).to_numpy().astype(np.bool_)
    return found
