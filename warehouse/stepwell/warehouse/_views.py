"""The views that a query sees. What is not a stored fact is resolved here, from the events, by the order of commit.

The last event per target, name and author counts. Sequence numbers order one producer's records; commits order those of several.
"""

from __future__ import annotations

_COMMITTED = 'ledger IS NULL AND "commit" <= (SELECT coalesce(max("commit"), 0) FROM _commits)'

_LATEST = 'ORDER BY "commit" DESC, producer DESC, sequence DESC, event_id DESC'

TRAINING_ORDER = 'group_id, trajectory_id, "commit", producer, sequence, step_id'
"""Steps of a group together, those of a trajectory in the order they came: sorting for prefixes is then nearly free."""

EVENTS = f"""
CREATE VIEW events AS
SELECT * EXCLUDE (ledger) FROM _events WHERE {_COMMITTED}
"""

# One row per target, kind, name and author: what was said last.
FEEDBACK = f"""
CREATE VIEW feedback AS
SELECT * FROM events WHERE kind IN ('reward', 'rating', 'label', 'score', 'comment', 'preference', 'correction')
QUALIFY row_number() OVER (PARTITION BY target_kind, target_id, kind, name, author {_LATEST}) = 1
"""

# Several names or authors of one reward add up; a target without any reward has none, not zero.
_REWARDS = """
CREATE VIEW _rewards AS
SELECT target_kind, target_id, sum(value) AS reward FROM feedback WHERE kind = 'reward' GROUP BY ALL
"""

_OPENED = f"""
CREATE VIEW _opened AS
SELECT target_id AS trajectory_id,
       payload ->> 'prompt_id' AS prompt_id, payload ->> 'group_id' AS group_id, payload ->> 'split' AS split,
       CAST(payload ->> 'policy_version' AS BIGINT) AS policy_version,
       payload -> 'metadata' AS metadata, created_at AS opened_at
FROM events WHERE kind = 'trajectory.open'
QUALIFY row_number() OVER (PARTITION BY target_id {_LATEST}) = 1
"""

# What ingest found out about a step after it was stored. An attempt whose answer was repeated is none that was superseded.
_FOUND = """
CREATE VIEW _found AS
SELECT target_id AS step_id,
       any_value(text) FILTER (kind = 'parent.late') AS late_parent,
       CASE WHEN NOT bool_or(kind = 'attempt.used') THEN min(text) FILTER (kind = 'attempt.superseded') END AS superseded_by
FROM events WHERE kind IN ('parent.late', 'attempt.superseded', 'attempt.used') GROUP BY target_id
"""

STEPS = f"""
CREATE VIEW steps AS
SELECT s.* REPLACE (
         coalesce(s.parent_id, f.late_parent) AS parent_id,
         s.trainable AND f.superseded_by IS NULL AS trainable,
         CASE WHEN f.superseded_by IS NULL THEN s.untrainable_reason
              ELSE 'the client used another attempt of this call: ' || f.superseded_by END AS untrainable_reason,
         coalesce(s.prompt_id, o.prompt_id) AS prompt_id,
         coalesce(s.group_id, o.group_id) AS group_id,
         coalesce(s.split, o.split, 'train') AS split,
         CASE WHEN s.policy_label LIKE '%..%' THEN s.policy_version
              ELSE coalesce(s.policy_version, o.policy_version) END AS policy_version),
       f.superseded_by,
       coalesce(by_step.reward, by_response.reward) AS step_reward,
       by_trajectory.reward AS trajectory_reward
FROM (SELECT * FROM _visible_steps WHERE {_COMMITTED.removeprefix("ledger IS NULL AND ")}) s
LEFT JOIN _opened o USING (trajectory_id)
LEFT JOIN _found f USING (step_id)
LEFT JOIN _rewards by_step ON by_step.target_kind = 'step' AND by_step.target_id = s.step_id
LEFT JOIN _rewards by_response ON by_response.target_kind = 'response' AND by_response.target_id = s.response_id
LEFT JOIN _rewards by_trajectory ON by_trajectory.target_kind = 'trajectory' AND by_trajectory.target_id = s.trajectory_id
"""

# A trajectory is complete once everything that its end refers to is committed. What one producer said last is known by its numbers;
# between several in one commit, an end counts more than an opening.
_ENDED = f"""
CREATE VIEW _ended AS
SELECT target_id AS trajectory_id, kind, text AS reason, created_at AS ended_at,
       coalesce((SELECT bool_and(coalesce(m.mark, 0) >= CAST(j.value AS BIGINT))
                 FROM json_each(e.payload, '$.marks') j LEFT JOIN _marks m ON m.producer = j.key), true) AS arrived
FROM (SELECT * FROM
        (SELECT * FROM events WHERE kind IN ('trajectory.open', 'trajectory.completed', 'trajectory.failed')
         QUALIFY row_number() OVER (PARTITION BY target_id, producer {_LATEST}) = 1)
      QUALIFY row_number() OVER (PARTITION BY target_id ORDER BY "commit" DESC, kind = 'trajectory.open', producer DESC) = 1) e
"""

QUARANTINE = f"""
CREATE VIEW quarantine AS
SELECT * EXCLUDE (ledger) FROM _exchanges WHERE {_COMMITTED}
"""

# What was lost or could not be read stays missing, however often the trajectory is opened again and ended.
_GAPS = """
CREATE VIEW _gaps AS
SELECT target_id AS trajectory_id, true AS gap FROM events
WHERE kind IN ('trajectory.completed', 'trajectory.failed') AND CAST(payload ->> 'lost' AS BIGINT) > 0
UNION
SELECT trajectory_id, true FROM quarantine WHERE trajectory_id IS NOT NULL
"""

TRAJECTORIES = """
CREATE VIEW trajectories AS
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
       min(s.policy_version) AS policy_version_min,
       max(s.policy_version) AS policy_version_max,
       any_value(o.opened_at) AS opened_at,
       any_value(e.ended_at) FILTER (e.kind <> 'trajectory.open') AS ended_at
FROM (SELECT DISTINCT trajectory_id FROM (SELECT trajectory_id FROM steps UNION ALL SELECT trajectory_id FROM _opened)) t
LEFT JOIN steps s USING (trajectory_id)
LEFT JOIN _opened o USING (trajectory_id)
LEFT JOIN _ended e USING (trajectory_id)
LEFT JOIN _gaps g USING (trajectory_id)
LEFT JOIN _rewards r ON r.target_kind = 'trajectory' AND r.target_id = trajectory_id
GROUP BY trajectory_id
"""

GROUPS = """
CREATE VIEW groups AS
SELECT group_id, any_value(prompt_id) AS prompt_id, any_value(split) AS split, count(*) AS trajectories,
       count(*) FILTER (state <> 'open') AS ended, CAST(sum(steps) AS BIGINT) AS steps,
       avg(trajectory_reward) AS reward_mean, stddev_pop(trajectory_reward) AS reward_std,
       count(trajectory_reward) AS rewarded
FROM trajectories WHERE group_id IS NOT NULL GROUP BY group_id
"""

DATASETS = """
CREATE VIEW datasets AS
SELECT name, version, steps, filter, note, at_commit, fingerprint, created_at, dataset_id FROM _datasets WHERE ledger IS NULL
"""

DATASET_ROWS = """
CREATE VIEW dataset_rows AS
SELECT d.name, d.version, r.* EXCLUDE (row_id, dataset_id, producer, sequence, "commit", ledger)
FROM _dataset_rows r JOIN datasets d USING (dataset_id) WHERE r.ledger IS NULL AND r.step_id IS NOT NULL
"""

VIEWS = (
    EVENTS,
    FEEDBACK,
    _REWARDS,
    _OPENED,
    _FOUND,
    STEPS,
    _ENDED,
    QUARANTINE,
    _GAPS,
    TRAJECTORIES,
    GROUPS,
    DATASETS,
    DATASET_ROWS,
)
"""Statements that define the views, in order, over the registered tables `_steps`, `_events`, … and `_marks`."""
