"""`GET /steps/{step_id}/diff`: where the prompts of two steps part."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import APIRouter, Query
from starlette.responses import Response

from stepwell.gateway._parts import PartRoute
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_rows import FOUND, Rows

__all__ = ["diff_routes"]

_SHOWN = "step_id, trajectory_id, parent_id, turn, model, source, fingerprint, drift_at, drift_cause, messages, prompt_ids, response_ids"
_AROUND = 32
"""Ids that are shown on either side of where the prompts part."""
_COMPARED = 1_000_000
"""Pairs of messages above which what differs is told as one piece."""
_LONGEST = 200_000
"""Characters of a message that are sent; the rest is in the step."""

With = Annotated[str, Query(alias="with", min_length=1, max_length=256, description="The other step.")]


def diff_routes(rows: Rows) -> APIRouter:
    """The step of the path is `a`, that of the query `b`."""
    router = APIRouter(tags=["read"], route_class=PartRoute)

    @router.get("/steps/{step_id:path}/diff", responses=FOUND)
    def get_diff(step_id: str, other: With) -> Response:
        """Two steps' prompts, message by message and id by id."""
        a, b = (rows.one(f"SELECT {_SHOWN} FROM steps", "step", id_) for id_ in (step_id, other))
        messages, tokens = _messages(_list(a["messages"]), _list(b["messages"])), _tokens(a, b)
        shown = [name for name in _SHOWN.split(", ") if name not in ("messages", "prompt_ids", "response_ids")]
        return json_response(
            {
                **{name: {key: row[key] for key in shown} for name, row in (("a", a), ("b", b))},
                "messages": messages,
                "tokens": tokens,
            }
        )

    return router


def _messages(a: Sequence[Any], b: Sequence[Any]) -> dict[str, Any]:
    """`changes` are pieces that are not alike: `op`, where they lie in each, and the messages themselves."""
    left, right = ([orjson.dumps(one, option=orjson.OPT_SORT_KEYS) for one in some] for some in (a, b))
    shorter = min(len(a), len(b))
    same = next((place for place in range(shorter) if left[place] != right[place]), shorter)
    tail = next((place for place in range(shorter - same) if left[-1 - place] != right[-1 - place]), shorter - same)
    middle_a, middle_b = left[same : len(a) - tail], right[same : len(b) - tail]
    whole = [("replace", 0, len(middle_a), 0, len(middle_b))]
    small = len(middle_a) * len(middle_b) <= _COMPARED
    pieces = SequenceMatcher(None, middle_a, middle_b, autojunk=False).get_opcodes() if small else whole
    changes = [
        {
            "op": op,
            "a": [same + i1, same + i2],
            "b": [same + j1, same + j2],
            "a_messages": list(map(_cut, a[same + i1 : same + i2])),
            "b_messages": list(map(_cut, b[same + j1 : same + j2])),
        }
        for op, i1, i2, j1, j2 in pieces
        if op != "equal"
    ]
    return {"a": len(a), "b": len(b), "common_prefix": same, "changes": changes}


def _tokens(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any] | None:
    """How far the prompts' ids are alike, from the beginning and from the end, and the ids around the places. None without ids."""
    if a["prompt_ids"] is None or b["prompt_ids"] is None:
        return None
    left, right = (np.asarray(row["prompt_ids"], np.int32) for row in (a, b))
    shorter = min(len(left), len(right))
    prefix = _alike(left[:shorter], right[:shorter])
    suffix = _alike(left[::-1][: shorter - prefix], right[::-1][: shorter - prefix])
    whole = np.concatenate([left, np.asarray(a["response_ids"] or [], np.int32)])
    reach = min(len(whole), len(right))
    return {
        "a": len(left),
        "b": len(right),
        "common_prefix": prefix,
        "common_suffix": suffix,
        "same_tokenizer": a["fingerprint"] == b["fingerprint"],
        "continues": _alike(whole[:reach], right[:reach]),
        "a_ids": _around(left, prefix, len(left) - suffix),
        "b_ids": _around(right, prefix, len(right) - suffix),
    }


def _around(ids: np.ndarray[Any, Any], start: int, end: int) -> dict[str, Any]:
    """The ids from a little before where they begin to differ to a little behind, at most so many."""
    first = max(start - _AROUND, 0)
    last = min(max(end, start) + _AROUND, len(ids), first + 4 * _AROUND)
    return {"from": first, "ids": ids[first:last].tolist(), "differ": [start, max(end, start)]}


def _alike(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> int:
    different = np.flatnonzero(left != right)
    return int(different[0]) if different.size else len(left)


def _list(text: str | None) -> list[Any]:
    try:
        said = orjson.loads(text or "[]")
    except ValueError:  # half a surrogate pair: compared as the text that it is
        return [text]
    return said if isinstance(said, list) else [said]


def _cut(message: Any) -> Any:
    """A message as it is, or where it is very long its beginning as text."""
    size = len(orjson.dumps(message))
    if size <= _LONGEST:
        return message
    return {"cut": True, "bytes": size, "text": orjson.dumps(message)[:_LONGEST].decode("utf-8", "ignore")}
