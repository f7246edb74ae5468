"""The tables of the listing: how they are made of what was read from the warehouse."""

from __future__ import annotations

__all__ = ["AGENT", "ERROR", "STEPS", "SUMMARIES"]

AGENT = """left(coalesce(metadata ->> 'agent', metadata ->> 'agent_type', metadata ->> '$.otlp.service', metadata ->> 'user_agent',
    nullif(regexp_extract(metadata ->> 'session', '^(claude-code|codex|opencode):', 1), '')), 200)"""
"""Who called the model, as far as a step's metadata say so."""

ERROR = "status NOT IN ('ok', 'truncated')"
"""Of a step: its call failed, was cut off or given up."""

STEPS = """CREATE TABLE steps AS SELECT {columns} FROM read ORDER BY "commit", producer, sequence, step_id"""

_TRAJECTORIES = f"""CREATE OR REPLACE TABLE trajectories AS
SELECT t.*, s.* EXCLUDE (trajectory_id) FROM read t LEFT JOIN
  (SELECT trajectory_id, min(agent) AS agent, min(model) AS model, min(source) AS source, min(started_at) AS started_at,
          max(finished_at) AS last_at, CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
          CAST(sum(output_tokens) AS BIGINT) AS output_tokens, count(*) FILTER ({ERROR}) AS errors,
          count(*) FILTER (truncated) AS truncated, count(*) FILTER (tool_error) AS tool_errors,
          count(*) FILTER (refusal) AS refusals, count(*) FILTER (drift) AS drifts
   FROM steps GROUP BY trajectory_id) s USING (trajectory_id)"""

# Rewards that are all the same teach nothing by comparison. (Of equal numbers the deviation need not be 0 to the last digit.)
_GROUPS = """CREATE OR REPLACE TABLE groups AS
SELECT g.*, coalesce(g.rewarded > 1 AND t.reward_min = t.reward_max, false) AS zero_variance, g.trajectories - g.ended AS open,
       g.trajectories - g.rewarded AS unrewarded, greatest(coalesce(t.size, 0) - g.trajectories, 0) AS missing,
       t.reward_min, t.reward_max, t.last_at
FROM read g LEFT JOIN
  (SELECT group_id, max(group_size) AS size, min(trajectory_reward) AS reward_min, max(trajectory_reward) AS reward_max,
          max(last_at) AS last_at FROM trajectories GROUP BY group_id) t USING (group_id)"""

SUMMARIES = {"trajectories": _TRAJECTORIES, "groups": _GROUPS}
"""In this order: each is made of the warehouse's view of that name (`read`) and of the tables before it."""
