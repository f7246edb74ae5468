"""The views that a query sees. What is not a stored fact is resolved here, from the events, by the order of commit.

The last event per target, kind, name and author counts, and one that takes back leaves nothing; one that was undone is as if it had never
been said. Sequence numbers order one producer's
records; commits order those of several. Every view is over the rows of one version: `_visible_…` (see `query`).
"""

from __future__ import annotations

from collections.abc import Mapping

_LATEST = 'ORDER BY "commit" DESC, producer DESC, sequence DESC, event_id DESC'

TRAINING_ORDER = 'group_id, trajectory_id, "commit", producer, sequence, turn, step_id'
"""Steps of a group together, those of a trajectory in the order they came: sorting for prefixes is then nearly free."""


def with_commit(table: str) -> str:
    """The visible rows of a table with the number of the commit that brought each."""
    return f"""
SELECT v.*, c."commit" FROM _visible_{table} v ASOF LEFT JOIN _commits c ON c.producer = v.producer AND v.sequence <= c.sequence
"""


EVENTS = f"CREATE TEMP VIEW events AS {with_commit('events')}"

FEEDBACK_KINDS = ("reward", "rating", "label", "score", "comment", "preference", "correction", "trainable")

# An event and the one that undoes it are about the same target, so that whoever looks at all that was said about that has both.
_UNDONE = """
CREATE TEMP VIEW _undone AS SELECT target_kind, target_id, text AS event_id FROM events WHERE kind = 'undo'
"""

# One row per target, kind, name and author: what was said last and not undone, unless that took back what was said before.
FEEDBACK = f"""
CREATE TEMP VIEW feedback AS
SELECT * FROM
  (SELECT * FROM events ANTI JOIN _undone USING (target_kind, target_id, event_id) WHERE kind IN {FEEDBACK_KINDS}
   QUALIFY row_number() OVER (PARTITION BY target_kind, target_id, kind, name, author {_LATEST}) = 1)
WHERE payload ->> 'retract' IS NULL
"""

# Per target: its rewards and its labels. Several names or authors of one reward add up, always in one order; a target without any
# reward has none, not zero. Of a score, which is a judgement, several authors have a mean.
_SAID = """
CREATE TEMP VIEW _said AS
SELECT target_kind, target_id,
       list_sum(list(value ORDER BY name) FILTER (kind = 'reward')) AS reward,
       map_from_entries(list(struct_pack(k := name, v := value) ORDER BY name) FILTER (kind = 'reward')) AS rewards,
       map_from_entries(list(struct_pack(k := name, v := mean) ORDER BY name) FILTER (kind = 'score')) AS scores,
       coalesce(list_sort(list_distinct(flatten(list(texts) FILTER (kind = 'label')))), []) AS labels
FROM (SELECT target_kind, target_id, kind, name, list_sum(list(value ORDER BY author, event_id)) AS value,
             list_avg(list(value ORDER BY author, event_id)) AS mean, list(text) AS texts
      FROM feedback WHERE kind IN ('reward', 'label', 'score') GROUP BY ALL)
GROUP BY ALL
"""

_OPENED = f"""
CREATE TEMP VIEW _opened AS
SELECT target_id AS trajectory_id,
       payload ->> 'prompt_id' AS prompt_id, payload ->> 'group_id' AS group_id, payload ->> 'split' AS split,
       CAST(payload ->> 'policy_version' AS BIGINT) AS policy_version,
       payload -> 'metadata' AS metadata, created_at AS opened_at
FROM events WHERE kind = 'trajectory.open'
QUALIFY row_number() OVER (PARTITION BY target_id {_LATEST}) = 1
"""

# What ingest found out about a step after it was stored. An attempt whose answer was repeated is none that was superseded.
_FOUND = """
CREATE TEMP VIEW _found AS
SELECT target_id AS step_id,
       min(text) FILTER (kind = 'parent.late') AS late_parent,
       CASE WHEN NOT bool_or(kind = 'attempt.used') THEN min(text) FILTER (kind = 'attempt.superseded') END AS superseded_by
FROM events WHERE kind IN ('parent.late', 'attempt.superseded', 'attempt.used') GROUP BY target_id
"""

# Steps that somebody keeps out of training, and why. Of several who say something about that each can.
_BARRED = """
CREATE TEMP VIEW _barred AS
SELECT target_id AS step_id,
       min('set not trainable' || coalesce(' by ' || author, '') || coalesce(': ' || (payload ->> 'comment'), '')) AS barred
FROM feedback WHERE kind = 'trainable' AND target_kind = 'step' AND value = 0 GROUP BY target_id
"""

# A trajectory is complete once everything that its end refers to is committed. What one producer said last is known by its numbers;
# between several in one commit, an end counts more than an opening.
_ENDED = f"""
CREATE TEMP VIEW _ended AS
SELECT target_id AS trajectory_id, kind, text AS reason, created_at AS ended_at, payload ->> 'marks' AS marks,
       coalesce((SELECT bool_and(coalesce(m.mark, 0) >= CAST(j.value AS BIGINT))
                 FROM json_each(e.payload, '$.marks') j LEFT JOIN _marks m ON m.producer = j.key), true) AS arrived
FROM (SELECT * FROM
        (SELECT * FROM events WHERE kind IN ('trajectory.open', 'trajectory.completed', 'trajectory.failed')
         QUALIFY row_number() OVER (PARTITION BY target_id, producer {_LATEST}) = 1)
      QUALIFY row_number() OVER (PARTITION BY target_id ORDER BY "commit" DESC, kind = 'trajectory.open', producer DESC) = 1) e
"""

EXCHANGES = f"CREATE TEMP VIEW exchanges AS {with_commit('exchanges')}"

# Calls that could not be read at first, and were read again since (see `_parse/again`).
_READ_AGAIN = """
CREATE TEMP VIEW _read_again AS SELECT left(text, length(text) - 2) AS exchange_id FROM events WHERE kind = 'call.read'
"""

# A call that was read, and is kept as it crossed the wire, has no reason.
QUARANTINE = """
CREATE TEMP VIEW quarantine AS SELECT * FROM exchanges ANTI JOIN _read_again USING (exchange_id) WHERE reason IS NOT NULL
"""

# What was lost or could not be read stays missing, however often the trajectory is opened again and ended.
_GAPS = """
CREATE TEMP VIEW _gaps AS
SELECT target_id AS trajectory_id, true AS gap FROM events
WHERE kind IN ('trajectory.completed', 'trajectory.failed') AND CAST(payload ->> 'lost' AS BIGINT) > 0
UNION
SELECT trajectory_id, true FROM _visible_exchanges ANTI JOIN _read_again USING (exchange_id)
WHERE trajectory_id IS NOT NULL AND reason IS NOT NULL
"""

TRAJECTORIES = """
CREATE TEMP VIEW trajectories AS
SELECT trajectory_id,
       coalesce(max(s.prompt_id), any_value(o.prompt_id)) AS prompt_id,
       coalesce(max(s.group_id), any_value(o.group_id)) AS group_id,
       coalesce(max(s.split), any_value(o.split), 'train') AS split,
       CASE WHEN coalesce(any_value(e.kind) = 'trajectory.open' OR NOT any_value(e.arrived), true) THEN 'open'
            WHEN any_value(g.gap) THEN 'incomplete'
            WHEN any_value(e.kind) = 'trajectory.completed' THEN 'completed'
            ELSE 'failed' END AS state,
       any_value(e.reason) AS reason,
       count(s.step_id) AS steps,
       count(s.step_id) FILTER (s.trainable) AS trainable_steps,
       max(s.turn) + 1 AS turns,
       CAST(sum(len(s.response_ids)) AS BIGINT) AS response_tokens,
       any_value(r.reward) AS trajectory_reward,
       any_value(r.rewards) AS trajectory_rewards,
       any_value(r.scores) AS trajectory_scores,
       coalesce(any_value(r.labels), []) AS labels,
       min(s.policy_version) AS policy_version_min,
       max(s.policy_version) AS policy_version_max,
       TRY_CAST(any_value(o.metadata) ->> 'group_size' AS BIGINT) AS group_size,
       any_value(o.opened_at) AS opened_at,
       any_value(e.ended_at) FILTER (e.kind <> 'trajectory.open') AS ended_at
FROM (SELECT DISTINCT trajectory_id FROM (SELECT trajectory_id FROM steps UNION ALL SELECT trajectory_id FROM _opened)) t
LEFT JOIN steps s USING (trajectory_id)
LEFT JOIN _opened o USING (trajectory_id)
LEFT JOIN _ended e USING (trajectory_id)
LEFT JOIN _gaps g USING (trajectory_id)
LEFT JOIN _said r ON r.target_kind = 'trajectory' AND r.target_id = trajectory_id
GROUP BY trajectory_id
"""

# A group is ready when all of its trajectories have ended and have a reward, and there are as many as any of them declared when it was
# opened (`group_size` in its metadata). Where none did, those that are there count: a late member makes the group unready again.
GROUPS = """
CREATE TEMP VIEW groups AS
SELECT group_id, any_value(prompt_id) AS prompt_id, any_value(split) AS split, count(*) AS trajectories,
       count(*) FILTER (state <> 'open') AS ended, CAST(sum(steps) AS BIGINT) AS steps,
       list_avg(list(trajectory_reward ORDER BY trajectory_id)) AS reward_mean,
       list_stddev_pop(list(trajectory_reward ORDER BY trajectory_id)) AS reward_std,
       count(trajectory_reward) AS rewarded,
       min(policy_version_min) AS policy_version_min, max(policy_version_max) AS policy_version_max,
       bool_and(state <> 'open' AND trajectory_reward IS NOT NULL) AND count(*) >= coalesce(max(group_size), 1) AS ready
FROM trajectories WHERE group_id IS NOT NULL GROUP BY group_id
"""

DATASETS = """
CREATE TEMP VIEW datasets AS
SELECT name, version, steps, filter, note, at_commit, fingerprint, coalesce(pinned, false) AS pinned, lineage, created_at, dataset_id
FROM _datasets WHERE fingerprint IS NOT NULL
"""

DATASET_ROWS = """
CREATE TEMP VIEW dataset_rows AS
SELECT d.name, d.version, r.* EXCLUDE (row_id, dataset_id, producer, sequence, ledger)
FROM _dataset_rows r JOIN datasets d USING (dataset_id) WHERE r.ledger IS NULL AND r.step_id IS NOT NULL
"""

VIEWS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "events": (EVENTS, ()),
    "_undone": (_UNDONE, ("events",)),
    "feedback": (FEEDBACK, ("events", "_undone")),
    "_barred": (_BARRED, ("feedback",)),
    "_said": (_SAID, ("feedback",)),
    "_opened": (_OPENED, ("events",)),
    "_found": (_FOUND, ("events",)),
    "_ended": (_ENDED, ("events",)),
    "_read_again": (_READ_AGAIN, ("events",)),
    "_gaps": (_GAPS, ("events", "_read_again")),
    "exchanges": (EXCHANGES, ()),
    "quarantine": (QUARANTINE, ("exchanges", "_read_again")),
    "trajectories": (TRAJECTORIES, ("steps", "_opened", "_ended", "_gaps", "_said")),
    "groups": (GROUPS, ("trajectories",)),
    "datasets": (DATASETS, ()),
    "dataset_rows": (DATASET_ROWS, ("datasets",)),
}
"""Each view's definition, and the views that it is over. `steps` is made for each query (see `view_of_steps`)."""
