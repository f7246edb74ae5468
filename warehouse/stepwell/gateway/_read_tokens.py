"""`GET /steps/{step_id}/tokens`: a step token by token, in a form that a long one is a megabyte or two of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter, Query
from starlette.responses import Response

from stepwell.gateway._cursor import literal
from stepwell.gateway._parts import PartRoute
from stepwell.gateway._problems import Problem
from stepwell.gateway._read_rows import FOUND, Rows

if TYPE_CHECKING:
    from stepwell.reader import TokenTexts

__all__ = ["token_routes"]

_MOST = 1 << 17
"""Tokens in one answer; beyond it, ask by `from` and `to`."""
_NOT_COMPARED = "parent not in memory"
_SHOWN = (
    *("step_id", "trajectory_id", "group_id", "model", "policy", "policy_version", "source", "fingerprint"),
    *("logprobs_mode", "trainable", "untrainable_reason"),
)

From = Annotated[
    int, Query(alias="from", ge=0, lt=2**31, description="The first token, of prompt and response as one.")
]
To = Annotated[int | None, Query(ge=0, lt=2**31, description="One past the last; by default the end.")]
Estimator = Annotated[
    Literal["grpo", "grpo-centred"] | None,
    Query(
        description="Say the step's advantage within its group as it is now; `grpo-centred` does not divide by the deviation."
    ),
]


class _Texts:
    """Made at the first step that is looked at: the reader takes a while to import."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: TokenTexts | None = None

    def of(self, ids: Sequence[int], step: Mapping[str, Any]) -> list[str] | None:
        if self._made is None:
            from stepwell.reader import TokenTexts

            self._made = TokenTexts(self._folder)
        named = {name: step[name] for name in ("source", "fingerprint", "model")}
        return self._made.of(ids, **named)


def token_routes(rows: Rows, tokenizers: Path) -> APIRouter:
    """`tokenizers`: the folder of tokenizers that texts are told by, besides those in the machine's caches."""
    router = APIRouter(tags=["read"], route_class=PartRoute)
    texts = _Texts(tokenizers)

    @router.get("/steps/{step_id:path}/tokens", responses=FOUND)
    def get_tokens(step_id: str, from_: From = 0, to: To = None, advantage: Estimator = None) -> Response:
        """Ids, logprobs and texts of a step's tokens, which of them have loss terms, and which earlier step sampled those of the prompt.

        `texts` is null where no tokenizer for them is on this machine. Lists begin at `from`.
        """
        step = rows.one(
            f"SELECT {', '.join(_SHOWN)}, parent_id, response_ids, logprobs, prompt_ids FROM steps", "step", step_id
        )
        prompt, response = step["prompt_ids"] or [], step["response_ids"] or []
        length = len(prompt) + len(response)
        end = length if to is None else min(to, length)
        if end - from_ > _MOST:
            raise Problem(422, f"from, to: at most {_MOST} tokens at once; this step has {length}", field="to")
        answer = {
            **{name: step[name] for name in _SHOWN},
            "length": length,
            "prompt_length": len(prompt),
            "response_length": len(response),
            "from": min(from_, length),
            "to": max(end, min(from_, length)),
            **_pieces(step, from_, end),
            "mask": [[len(prompt), length]] if step["trainable"] and response else [],
            "sampled": _sampled(rows, step, len(prompt)),
            **({} if advantage is None else _advantage(rows, step, advantage)),
        }
        answer["texts"] = texts.of([*answer["prompt_ids"], *answer["response_ids"]], step)
        return Response(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")

    return router


def _pieces(step: Mapping[str, Any], start: int, end: int) -> dict[str, Any]:
    prompt, response, logprobs = step["prompt_ids"] or [], step["response_ids"] or [], step["logprobs"]
    first, last = max(start - len(prompt), 0), max(end - len(prompt), 0)
    return {
        "prompt_ids": prompt[start:end],
        "response_ids": response[first:last],
        # In 32 bits, as they are stored: their shortest form is half as long.
        "logprobs": None if logprobs is None else np.asarray(logprobs[first:last], np.float32),
    }


def _sampled(rows: Rows, step: Mapping[str, Any], prompt: int) -> list[dict[str, Any]]:
    """Which parts of the prompt are answers of earlier steps, as far as each prompt goes on exactly from the one before it."""
    if step["parent_id"] is None or step["trajectory_id"] is None:
        return []
    found = rows.ask(
        "SELECT step_id, parent_id, prompt_length, len(response_ids) AS response_length, drift_at, drift_cause FROM steps "
        f"WHERE trajectory_id = {literal(step['trajectory_id'])}"
    )
    steps = {row["step_id"]: row for row in found}
    same, spans, seen = prompt, list[dict[str, Any]](), set[str]()
    at = steps.get(step["step_id"])
    while at is not None and (parent := steps.get(at["parent_id"])) is not None and parent["step_id"] not in seen:
        seen.add(parent["step_id"])
        same = min(same, prompt if at["drift_at"] is None else at["drift_at"])
        if at["drift_cause"] == _NOT_COMPARED or parent["prompt_length"] is None or parent["response_length"] is None:
            break
        start, end = parent["prompt_length"], min(parent["prompt_length"] + parent["response_length"], same)
        if start < end:
            spans.append({"from": start, "to": end, "step_id": parent["step_id"]})
        at = parent
    return spans[::-1]


def _advantage(rows: Rows, step: Mapping[str, Any], estimator: str) -> dict[str, Any]:
    """Of the step's trajectory among those of its group that have ended and have a reward."""
    from stepwell.reader import grpo

    if step["group_id"] is None:
        return {"advantage": None, "advantage_reason": "the step is in no group"}
    members = rows.ask(
        "SELECT trajectory_id, state, trajectory_reward FROM trajectories "
        f"WHERE group_id = {literal(step['group_id'])} ORDER BY trajectory_id"
    )
    compared = [
        row for row in members if row["state"] in ("completed", "failed") and row["trajectory_reward"] is not None
    ]
    ids = [row["trajectory_id"] for row in compared]
    if step["trajectory_id"] not in ids:
        return {"advantage": None, "advantage_reason": "its trajectory has not ended, lost a call, or has no reward"}
    found = grpo(
        [row["trajectory_reward"] for row in compared], np.zeros(len(compared), np.int64), std=estimator == "grpo"
    )
    return {"advantage": float(found[ids.index(step["trajectory_id"])]), "advantage_reason": None}
