"""Which trajectories, and which groups, are meant: like `_filters`, on the listing's tables of these names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from stepwell.gateway._cursor import literal
from stepwell.gateway._filter_sql import columns_of, microseconds, number, searched
from stepwell.gateway._filters import Meant, Real, State, Text, Whole
from stepwell.gateway._listing import Listing
from stepwell.gateway._problems import Problem
from stepwell.gateway._read_attention import stalled

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["GroupFilters", "TrajectoryFilters"]

_SEARCH = "Every word of this in what one of its steps added to its conversation or in its answer; or the beginning of its id."
_COUNTED = {
    "error": "errors",
    "truncated": "truncated",
    "tool_error": "tool_errors",
    "refusal": "refusals",
    "drift": "drifts",
}
"""By filter, the column that counts such steps."""
Where = Annotated[
    str, Field(min_length=1, max_length=4000, description="A condition in SQL over the columns that the list shows.")
]


class _Wide(BaseModel):
    model_config = ConfigDict(frozen=True)

    prompt_id: Text | None = None
    split: Text | None = None
    policy_version_min: Whole | None = Field(
        default=None, description="Some of it was sampled by this version or a later one."
    )
    policy_version_max: Whole | None = Field(
        default=None, description="Some of it was sampled by this version or an earlier one."
    )
    has_reward: bool | None = None
    reward_min: Real | None = None
    reward_max: Real | None = None
    since: datetime | None = Field(
        default=None, description="Its last step was finished at or after this; without a zone it is UTC."
    )
    until: datetime | None = Field(default=None, description="Its last step was finished before this.")
    ids: list[Text] = Field(default=[], max_length=500, description="These only.")
    q: Annotated[str, Field(min_length=1, max_length=400)] | None = Field(default=None, description=_SEARCH)
    where: Where | None = None

    def _meant(self, listing: Listing, id_: str, equal: Iterable[str], reward: str, told: Iterable[str]) -> Meant:
        """`id_` names the rows; `equal` are filters that columns equal, `reward` the column of rewards, `told` further conditions."""
        values = [(name, getattr(self, name)) for name in ("prompt_id", "split", *equal)]
        conditions = [f"{name} = {literal(value)}" for name, value in values if value is not None]
        bounds = (
            ("policy_version_max >=", self.policy_version_min),
            ("policy_version_min <=", self.policy_version_max),
            (f"{reward} >=", self.reward_min),
            (f"{reward} <=", self.reward_max),
            ("epoch_us(last_at) >=", microseconds(self.since)),
            ("epoch_us(last_at) <", microseconds(self.until)),
        )
        conditions += [f"{left} {number(right)}" for left, right in bounds if right is not None]
        conditions += [*told, *([f"{id_} IN ({', '.join(literal(one) for one in self.ids)})"] if self.ids else [])]
        if self.has_reward is not None:
            conditions.append(f"{reward} IS {'NOT ' if self.has_reward else ''}NULL")
        within: Mapping[str, pa.Table] = {}
        exact = True
        if self.q is not None:
            saying, exact = searched(listing, self.q)
            within = {"_saying": saying}
            among = f"SELECT {id_} FROM steps WHERE step_id IN (SELECT step_id FROM _saying)"
            conditions.append(f"{id_} IN ({among}) OR starts_with({id_}, {literal(self.q)})")
        if self.where is not None:
            if not columns_of(self.where):
                raise Problem(422, "where: names no column", field="where")
            conditions.append(f"{self.where}\n")
        return Meant(conditions, within, summaries=True, exact=exact, written=self.where is not None)


class TrajectoryFilters(_Wide):
    """All that is given must hold."""

    group_id: Text | None = None
    state: State | None = None
    ended: bool | None = None
    agent: Text | None = Field(default=None, description="Who called the model, as far as the steps' metadata say so.")
    model: Text | None = None
    source: Text | None = None
    policy: Text | None = Field(default=None, description="Of one of its steps.")
    label: Text | None = Field(default=None, description="One of the trajectory's labels.")
    tag: Text | None = Field(default=None, description="Of one of its steps.")
    step_label: Text | None = Field(default=None, description="A label of one of its steps.")
    trainable: bool | None = Field(default=None, description="Whether a step of it may be trained on.")
    error: bool | None = Field(
        default=None, description="Whether the call of one of its steps failed, was cut off or given up."
    )
    truncated: bool | None = Field(default=None, description="Whether one of its steps is; likewise what follows.")
    tool_error: bool | None = None
    refusal: bool | None = None
    drift: bool | None = None
    ready: bool | None = Field(default=None, description="Whether its group is ready.")
    zero_variance: bool | None = Field(default=None, description="Whether the rewards of its group are all the same.")

    def meant(self, listing: Listing) -> Meant:
        """The conditions. May block, as it searches. Raises as `StepFilters.meant` does."""
        return self._meant(listing, "trajectory_id", ("group_id", "state"), "trajectory_reward", self._told())

    def _told(self) -> list[str]:
        found = [] if self.ended is None else [f"state {'<>' if self.ended else '='} 'open'"]
        some = {name: getattr(self, name) for name in ("agent", "model", "source", "policy")}
        steps = [f"{name} = {literal(value)}" for name, value in some.items() if value is not None]
        steps += [f"list_contains(tags, {literal(self.tag)})"] if self.tag is not None else []
        steps += [f"list_contains(labels, {literal(self.step_label)})"] if self.step_label is not None else []
        if steps:
            found.append(f"trajectory_id IN (SELECT trajectory_id FROM steps WHERE {' AND '.join(steps)})")
        found += [f"list_contains(labels, {literal(self.label)})"] if self.label is not None else []
        counted = {**_COUNTED, "trainable": "trainable_steps"}
        flags = {column: getattr(self, name) for name, column in counted.items()}
        found += [
            f"coalesce({column}, 0) {'>' if value else '='} 0" for column, value in flags.items() if value is not None
        ]
        for name in ("ready", "zero_variance"):
            if (value := getattr(self, name)) is not None:
                found.append(f"group_id IN (SELECT group_id FROM groups WHERE {name} = {str(value).lower()})")
        return found


class GroupFilters(_Wide):
    """All that is given must hold; `reward_…` are of the mean."""

    ready: bool | None = Field(default=None, description="Whether every trajectory has ended and has a reward.")
    zero_variance: bool | None = Field(default=None, description="Whether its rewards are all the same.")
    stalled: bool | None = Field(
        default=None,
        description="Whether it waits for trajectories that have not ended, and nothing came for ten minutes.",
    )

    def meant(self, listing: Listing) -> Meant:
        """The conditions. May block, as it searches. Raises as `StepFilters.meant` does."""
        told = {
            "ready": self.ready,
            "zero_variance": self.zero_variance,
            f"({stalled(datetime.now(UTC))})": self.stalled,
        }
        conditions = [f"{one} IS {'' if value else 'NOT '}TRUE" for one, value in told.items() if value is not None]
        return self._meant(listing, "group_id", (), "reward_mean", conditions)
