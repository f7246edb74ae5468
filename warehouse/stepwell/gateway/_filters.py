"""Which steps are meant: the filters of lists, as parameters of a request or as an object in a body, and as a condition on the listing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from stepwell.gateway._cursor import literal
from stepwell.gateway._filter_sql import SEARCHED, columns_of, microseconds, number, satisfying, searched
from stepwell.gateway._listing import LISTED, Listing
from stepwell.gateway._listing_tables import AGENT
from stepwell.gateway._problems import Problem

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Lag", "Meant", "Real", "State", "StepFilters", "Text", "Whole"]

Text = Annotated[str, Field(min_length=1, max_length=256)]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Lag = Annotated[int, Field(ge=0, lt=2**62)]
Real = Annotated[float, Field(allow_inf_nan=False)]
State = Literal["open", "completed", "failed", "incomplete"]

_EQUAL = (
    *("trajectory_id", "group_id", "prompt_id", "status", "source", "split", "model", "policy", "dialect", "agent"),
    "response_id",
)
_FLAGS = ("trainable", "side", "truncated", "drift", "tool_error", "refusal")
_REWARD = "coalesce(step_reward, trajectory_reward)"
_ALIKE = """SELECT group_id FROM trajectories WHERE trajectory_reward IS NOT NULL AND group_id IS NOT NULL
    GROUP BY group_id HAVING count(*) > 1 AND min(trajectory_reward) = max(trajectory_reward)"""


@dataclass(frozen=True, slots=True)
class Meant:
    """A filter as conditions on the listing's table `steps`, and the tables that they take."""

    conditions: list[str]
    within: Mapping[str, pa.Table] = field(default_factory=dict)
    summaries: bool = False
    """Whether `trajectories` or `groups` are in them."""
    exact: bool = True
    """Whether the search found all there are."""
    written: bool = False
    """Whether one of them is the client's own, which may fail."""


class StepFilters(BaseModel):
    """All that is given must hold."""

    model_config = ConfigDict(frozen=True)

    trajectory_id: Text | None = None
    group_id: Text | None = None
    prompt_id: Text | None = None
    status: Text | None = None
    source: Text | None = None
    split: Text | None = None
    model: Text | None = None
    policy: Text | None = None
    dialect: Text | None = None
    agent: Text | None = Field(default=None, description="Who called the model, as far as its metadata say so.")
    response_id: Text | None = Field(default=None, description="The provider's id of the answer.")
    label: Text | None = Field(default=None, description="One of the step's labels.")
    tag: Text | None = None
    policy_version_min: Whole | None = None
    policy_version_max: Whole | None = None
    policy_lag_min: Lag | None = Field(default=None, description="Versions behind the newest one of the same policy.")
    policy_lag_max: Lag | None = None
    has_reward: bool | None = Field(default=None, description="Whether the step, or else its trajectory, has a reward.")
    reward_min: Real | None = None
    reward_max: Real | None = None
    trainable: bool | None = None
    side: bool | None = None
    truncated: bool | None = None
    drift: bool | None = None
    tool_error: bool | None = None
    refusal: bool | None = None
    superseded: bool | None = Field(default=None, description="Whether the client used another attempt of the call.")
    state: State | None = Field(default=None, description="Of its trajectory.")
    ready: bool | None = Field(default=None, description="Whether its group is ready.")
    zero_variance: bool | None = Field(default=None, description="Whether the rewards of its group are all the same.")
    since: datetime | None = Field(default=None, description="Finished at or after this; without a zone it is UTC.")
    until: datetime | None = Field(default=None, description="Finished before this.")
    since_commit: Annotated[int, Field(ge=0, lt=2**62)] | None = Field(
        default=None, description="Only what later commits than this one brought."
    )
    ids: list[Text] = Field(default=[], max_length=500, description="These steps only.")
    q: Annotated[str, Field(min_length=1, max_length=400)] | None = Field(
        default=None,
        description="Every word of this in what the step added to its conversation or in its answer; or the beginning of an id.",
    )
    where: Annotated[str, Field(min_length=1, max_length=4000)] | None = Field(
        default=None, description="A condition in SQL over the columns of the view `steps`."
    )

    def given(self) -> frozenset[str]:
        """The names of the filters that say something."""
        return frozenset(name for name in StepFilters.model_fields if getattr(self, name) not in (None, []))

    def meant(self, listing: Listing) -> Meant:
        """The conditions. May block, as it searches.

        Raises:
            Problem: 422, a filter cannot be what it is.
            StoreError: the warehouse cannot be opened or read.
        """
        conditions = [*self._equal(), *self._ranges(), *self._told(), *self._lags(listing)]
        within: dict[str, pa.Table] = {}
        exact = True
        if self.q is not None:
            within["_saying"], exact = searched(listing, self.q)
            conditions.append(f"step_id IN (SELECT step_id FROM _saying) OR {self._begins(self.q)}")
        if self.where is not None:
            columns = columns_of(self.where)
            if columns <= LISTED:
                conditions.append(f"{self.where}\n")
            else:
                within["_satisfying"] = satisfying(listing, self.where)
                conditions.append("step_id IN (SELECT step_id FROM _satisfying)")
        return Meant(conditions, within, self._over_summaries, exact, written=self.where is not None)

    @property
    def _over_summaries(self) -> bool:
        return self.state is not None or self.ready is not None or self.zero_variance is not None

    def over_view(self, listing: Listing) -> str:
        """The same as a condition over the warehouse's view `steps`: what a search finds, and which version of a policy is the newest,
        is as it is now. Raises as `meant` does, and Problem (422) where a search finds too much."""
        conditions = [*self._equal(AGENT), *self._ranges(_REWARD), *self._told(_REWARD, zero_variance=_ALIKE)]
        conditions += self._lags(listing)
        if self.q is not None:
            found, exact = searched(listing, self.q)
            if not exact:
                raise Problem(422, f"q: more than {SEARCHED} steps say this: narrow it down", field="q")
            ids = ", ".join(literal(id_) for id_ in found["step_id"].to_pylist())
            conditions.append(" OR ".join([*([f"step_id IN ({ids})"] if ids else []), self._begins(self.q)]))
        if self.where is not None:
            conditions.append(_over_view(self.where))
        return " AND ".join(f"({one})" for one in conditions) or "true"

    def _begins(self, text: str) -> str:
        return " OR ".join(f"starts_with({name}, {literal(text)})" for name in ("step_id", "trajectory_id", "group_id"))

    def _equal(self, agent: str = "agent") -> list[str]:
        values = {agent if name == "agent" else name: getattr(self, name) for name in _EQUAL}
        flags = {name: getattr(self, name) for name in _FLAGS}
        found = [f"{name} = {literal(value)}" for name, value in values.items() if value is not None]
        found += [f"{name} IS {'' if value else 'NOT '}TRUE" for name, value in flags.items() if value is not None]
        found += [f"list_contains(labels, {literal(self.label)})"] if self.label is not None else []
        return found + ([f"list_contains(tags, {literal(self.tag)})"] if self.tag is not None else [])

    def _ranges(self, reward: str = "reward") -> list[str]:
        bounds = (
            ("policy_version >=", self.policy_version_min),
            ("policy_version <=", self.policy_version_max),
            (f"{reward} >=", self.reward_min),
            (f"{reward} <=", self.reward_max),
            ("epoch_us(finished_at) >=", microseconds(self.since)),
            ("epoch_us(finished_at) <", microseconds(self.until)),
            ('"commit" >', self.since_commit),
        )
        return [f"{left} {number(right)}" for left, right in bounds if right is not None]

    def _lags(self, listing: Listing) -> list[str]:
        """How far behind the newest version of their policy that any step has."""
        if self.policy_lag_min is None and self.policy_lag_max is None:
            return []
        newest = listing.ask("SELECT policy, max(policy_version) AS version FROM steps GROUP BY ALL").to_pylist()
        some = []
        for row in newest:
            if row["version"] is not None:
                name = "policy IS NULL" if row["policy"] is None else f"policy = {literal(row['policy'])}"
                upto = row["version"] - (self.policy_lag_min or 0)
                least = (
                    [] if self.policy_lag_max is None else [f"policy_version >= {row['version'] - self.policy_lag_max}"]
                )
                some.append(" AND ".join([name, f"policy_version <= {upto}", *least]))
        return [" OR ".join(f"({one})" for one in some) or "false"]

    def _told(
        self, reward: str = "reward", zero_variance: str = "SELECT group_id FROM groups WHERE zero_variance"
    ) -> list[str]:
        found = []
        if self.has_reward is not None:
            found.append(f"{reward} IS {'NOT ' if self.has_reward else ''}NULL")
        if self.superseded is not None:
            found.append(f"superseded_by IS {'NOT ' if self.superseded else ''}NULL")
        if self.state is not None:
            found.append(
                f"trajectory_id IN (SELECT trajectory_id FROM trajectories WHERE state = {literal(self.state)})"
            )
        for value, groups in (
            (self.ready, "SELECT group_id FROM groups WHERE ready"),
            (self.zero_variance, zero_variance),
        ):
            if value is not None:
                # Who is in no group is neither: said in words, since NOT IN says so only where there is one to be in.
                found.append(f"group_id {'' if value else 'IS NOT NULL AND group_id NOT '}IN ({groups})")
        if self.ids:
            found.append(f"step_id IN ({', '.join(literal(id_) for id_ in self.ids)})")
        return found


def _over_view(where: str) -> str:
    """A condition of a client's, which may name the listing's own columns, over the warehouse's view."""
    columns, own = columns_of(where), {"agent": AGENT, "reward": _REWARD}
    if not columns & own.keys():
        return f"{where}\n"
    shown = [f'"{name}"' for name in sorted({"step_id", *columns} - own.keys())]
    made = [f"{expression} AS {name}" for name, expression in own.items() if name in columns]
    return f"step_id IN (SELECT step_id FROM (SELECT {', '.join([*shown, *made])} FROM steps) AS steps WHERE {where}\n)"
