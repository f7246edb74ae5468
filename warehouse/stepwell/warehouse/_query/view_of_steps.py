"""The view `steps`: what is stored of a step, and what is resolved about it.

Each resolved column is joined only where it is asked for. A column that is not is left out of the view, so that none is ever shown as
stored when it should be resolved.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from stepwell.warehouse._query.views import with_commit
from stepwell.warehouse._restore.whole import ENCODED


class _Resolved(NamedTuple):
    expression: str
    joins: tuple[str, ...] = ()


SIDE = "side"
"""A step with this tag or label is a side call: a title, a summary, a routing question. It gets no credit of its trajectory."""

_JOINS = {
    "opened": "LEFT JOIN _opened o ON o.trajectory_id = s.trajectory_id",
    "found": "LEFT JOIN _found f ON f.step_id = s.step_id",
    "barred": "LEFT JOIN _barred n ON n.step_id = s.step_id",
    "step": "LEFT JOIN _said a ON a.target_kind = 'step' AND a.target_id = s.step_id",
    "response": "LEFT JOIN _said b ON b.target_kind = 'response' AND b.target_id = s.response_id",
    "trajectory": "LEFT JOIN _said t ON t.target_kind = 'trajectory' AND t.target_id = s.trajectory_id",
}

_ABOUT = {
    "opened": "trajectory_id",
    "found": "step_id",
    "barred": "step_id",
    "step": "step_id",
    "response": "response_id",
    "trajectory": "trajectory_id",
}
"""The column of steps by which each of these finds the events that it is made of."""

_BY_STEP = ("step", "response")

_LABELS = "list_sort(list_distinct(list_concat(coalesce(a.labels, []), coalesce(b.labels, []))))"
_SIDE = f"coalesce(list_contains(s.tags, '{SIDE}'), false) OR list_contains({_LABELS}, '{SIDE}')"

_REFUSED = ", ".join(
    f"'{reason}'"
    for reason in (
        *("content_filter", "content_filtered", "refusal", "guardrail_intervened"),
        *("safety", "prohibited_content", "blocklist", "spii", "recitation", "model_armor"),
        *("image_safety", "image_prohibited_content", "image_recitation"),
    )
)
"""Reasons for which a provider ended or withheld an answer, of any dialect, in lower case."""

_STORED = {
    "parent_id": _Resolved("coalesce(s.parent_id, f.late_parent)", ("found",)),
    "trainable": _Resolved("s.trainable AND f.superseded_by IS NULL AND n.barred IS NULL", ("found", "barred")),
    "untrainable_reason": _Resolved(
        "CASE WHEN f.superseded_by IS NOT NULL THEN 'the client used another attempt of this call: ' || f.superseded_by "
        "ELSE coalesce(n.barred, s.untrainable_reason) END",
        ("found", "barred"),
    ),
    "prompt_id": _Resolved("coalesce(s.prompt_id, o.prompt_id)", ("opened",)),
    "group_id": _Resolved("coalesce(s.group_id, o.group_id)", ("opened",)),
    "split": _Resolved("coalesce(s.split, o.split, 'train')", ("opened",)),
    "policy_version": _Resolved(
        "CASE WHEN s.policy_label LIKE '%..%' THEN s.policy_version "
        "ELSE coalesce(s.policy_version, o.policy_version) END",
        ("opened",),
    ),
    "response": _Resolved(
        "CASE WHEN s.payload_ids IS NULL THEN s.response ELSE _whole_response(s.response, s.payload_ids) END"
    ),
}
"""Columns of the table that mean something else once they are resolved."""

_ADDED = {
    "commit": _Resolved('s."commit"'),
    "truncated": _Resolved("coalesce(s.status = 'truncated', false)"),
    "drift": _Resolved("s.drift_at IS NOT NULL"),
    "tool_error": _Resolved("coalesce(list_contains(s.quality, 'tool_error'), false)"),
    "refusal": _Resolved(
        "coalesce(list_contains(s.quality, 'refusal'), false) OR "
        f"coalesce(lower(s.finish_reason) IN ({_REFUSED}), false)"
    ),
    "superseded_by": _Resolved("f.superseded_by", ("found",)),
    "step_reward": _Resolved("coalesce(a.reward, b.reward)", _BY_STEP),
    "step_rewards": _Resolved("coalesce(a.rewards, b.rewards)", _BY_STEP),
    "step_scores": _Resolved("coalesce(a.scores, b.scores)", _BY_STEP),
    "labels": _Resolved(_LABELS, _BY_STEP),
    "side": _Resolved(_SIDE, _BY_STEP),
    "trajectory_reward": _Resolved(f"CASE WHEN NOT ({_SIDE}) THEN t.reward END", ("trajectory", *_BY_STEP)),
    "trajectory_rewards": _Resolved(f"CASE WHEN NOT ({_SIDE}) THEN t.rewards END", ("trajectory", *_BY_STEP)),
    "trajectory_scores": _Resolved("t.scores", ("trajectory",)),
    "trajectory_labels": _Resolved("coalesce(t.labels, [])", ("trajectory",)),
}
"""Columns that are not in the table."""

RESOLVED = (*_STORED, *_ADDED)
"""What a step is worth, whether it may be trained on and the like: everything that may be another thing at another version."""

_ALWAYS = ("step_id", "trajectory_id", "producer", "sequence", "ledger")

_OF_TRAJECTORIES = {"prompt_id", "group_id", "split", "policy_version", "trainable"}
"""What the view `trajectories` needs of steps, and through it `groups`."""


def made_of(asked: Collection[str] | None) -> tuple[frozenset[str], frozenset[str]]:
    """What the columns that are resolved, of those `asked` (None: all), are made of.

    Columns of the table, and those of them by whose values events are found.
    """
    resolved = [column for name, column in {**_STORED, **_ADDED}.items() if asked is None or name in asked]
    joins = {join for column in resolved for join in column.joins}
    texts = [*(column.expression for column in resolved), *(_JOINS[join] for join in joins)]
    columns = {name for text in texts for name in re.findall(r"\bs\.(\w+)", text)}
    return frozenset({*columns, *_ALWAYS}), frozenset(_ABOUT[join] for join in joins)


def steps_view(
    asked: Collection[str] | None, whole: Iterable[str], *, over_trajectories: bool
) -> tuple[str, tuple[str, ...]]:
    """The definition of the view and the views that it is over: the resolved columns among `asked` (None: all), the restored ones `whole`.

    `asked` may hold other names, too. `over_trajectories`: the query is over the view `trajectories`, which has needs of its own.
    """
    names = {name for name in RESOLVED if asked is None or name in asked} | (
        _OF_TRAJECTORIES if over_trajectories else set()
    )
    columns = {**_STORED, **_ADDED}
    replaced = [f'{_STORED[name].expression} AS "{name}"' for name in _STORED if name in names]
    added = [f', {_ADDED[name].expression} AS "{name}"' for name in _ADDED if name in names]
    dropped = [*ENCODED, *(name for name in _STORED if name not in names), *(['"commit"'] if "commit" in names else [])]
    rows = f"({with_commit('steps')})" if "commit" in names else "_visible_steps"
    restored = [f", _whole_{name}(s.step_id, s.trajectory_id) AS {name}" for name in whole]
    needed = {join for name in names for join in columns[name].joins}
    joined = [join for name, join in _JOINS.items() if name in needed]
    replace = f" REPLACE ({', '.join(replaced)})" if replaced else ""
    definition = (
        f"CREATE TEMP VIEW steps AS SELECT s.* EXCLUDE ({', '.join(dropped)}){replace}{''.join(added)}{''.join(restored)} "
        f"FROM {rows} s {' '.join(joined)}"
    )
    return definition, tuple(dict.fromkeys(join.split()[2] for join in joined))
