"""The contract: the records everybody sends, checked once, where they are made.

A `Step` is one generation by the policy; a `Feedback` is anything learned about a step, trajectory or group afterwards; a
`Trajectory` names what its steps belong to, and says when it is over. Unknown fields, lengths that do not agree, numbers that are
not finite and texts that are no Unicode are refused with the field's name; nothing is padded, cut or guessed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from stepwell.errors import InvalidRecord
from stepwell.sdk._values import (
    MAX_DEPTH,
    MAX_IDS,
    MAX_JSON_BYTES,
    MAX_LOGPROB,
    STAND_IN,
    CheckedIds,
    Flag,
    Id,
    JsonObject,
    Logprobs,
    Messages,
    Name,
    Number,
    Text,
    TokenIds,
    Version,
    checked_ids,
    packed_ids,
    strict_json,
)

__all__ = [
    "MAX_DEPTH",
    "MAX_IDS",
    "MAX_JSON_BYTES",
    "MAX_LOGPROB",
    "STAND_IN",
    "CheckedIds",
    "Feedback",
    "FeedbackKind",
    "Split",
    "Status",
    "Step",
    "Trajectory",
    "TrajectoryState",
    "checked",
    "checked_ids",
    "encoded",
    "new_id",
    "packed_ids",
    "something_was_seen",
    "strict_json",
]


def _random_source() -> Callable[[int], bytes]:
    """Both ask the kernel. `getrandom` (Linux) keeps the interpreter's lock meanwhile: it is back before another thread could take it."""
    try:
        os.getrandom(1)
    except (
        AttributeError,
        OSError,
    ):  # another system, or a sandbox that forbids the call, in which `urandom` finds another way
        return os.urandom
    return os.getrandom


_random = _random_source()


def new_id() -> str:
    """A fresh identifier, unique without asking anybody."""
    return _random(16).hex()


Split = Literal["train", "eval"]
Status = Literal["ok", "truncated", "error", "client_disconnect", "aborted"]
TrajectoryState = Literal["open", "completed", "failed"]
Retractable = Literal["reward", "rating", "label", "score", "comment", "preference", "correction", "trainable"]
FeedbackKind = Literal[Retractable, "undo"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


R = TypeVar("R", bound=BaseModel)


class Step(_Record):
    """One generation by the policy: one choice of one LLM call.

    It carries tokens (`prompt_ids`, `response_ids`), text (`messages`, `response`), or both. Messages have the form of OpenAI chat
    messages, or the canonical form (content as a list of typed parts).
    """

    step_id: Id = Field(default_factory=new_id)
    """Makes the submission idempotent: the same id twice is one step."""
    call_id: Id | None = None
    """Shared by the attempts and by the choices of one LLM call."""
    trajectory_id: Id | None = None
    prompt_id: Id | None = None
    """The task, the same across epochs."""
    group_id: Id | None = None
    """The trajectories of one sampling round of one prompt, compared with each other."""
    split: Split | None = None
    parent_id: Id | None = None
    """The step before this one. Left out, it is found by the conversation."""

    messages: Messages | None = None
    continues: Annotated[str, StringConstraints(pattern=r"^(response|conversation):.{1,500}$")] | None = None
    """What `messages` continue, where the provider remembers it: `response:<id>` or `conversation:<id>`."""
    response: JsonObject | None = None
    """The assistant's message; a plain string is taken as its text."""
    tools: Messages | None = None
    sampling: JsonObject | None = None
    """temperature, top_p, max_tokens, … as asked for."""
    finish_reason: Name | None = None
    status: Status = "ok"
    usage: JsonObject | None = None
    """As the provider gave it."""

    prompt_ids: TokenIds | None = None
    response_ids: TokenIds | None = None
    logprobs: Logprobs | None = None
    """Natural logarithms, one per response id, or absent."""
    logprobs_mode: Name | None = None
    """Whether the engine took logprobs before or after temperature and truncation, in the engine's words."""
    source: Annotated[str, StringConstraints(pattern=r"^(engine|tokenizer:.{1,200})$")] = "engine"
    """Where the ids come from: `engine` as sampled, or `tokenizer:<name>` derived from text and never trained on by default."""
    fingerprint: Name | None = None
    """Names model and tokenizer: ids of different fingerprints are never merged."""

    policy: Name | None = None
    policy_version: Version | None = None
    policy_label: Name | None = None
    model: Name | None = None
    """The model that answered, in the provider's words."""
    model_asked: Name | None = None
    response_id: Name | None = None
    dialect: Name | None = None
    engine: Name | None = None

    reward: Number | None = None
    """Becomes a feedback named `reward` on this step."""
    trainable: Flag = True
    untrainable_reason: Text | None = None
    started_at: AwareDatetime | None = None
    first_byte_at: AwareDatetime | None = None
    first_token_at: AwareDatetime | None = None
    """When the answer began to say something: in a stream a role and pings come first. The first byte, where nobody knows better."""
    finished_at: AwareDatetime | None = None
    metadata: JsonObject | None = None
    extra: JsonObject | None = None
    """What the provider said and the fields above do not model."""

    @field_validator("response", mode="before")
    @classmethod
    def _text_is_a_message(cls, value: object) -> object:
        return {"role": "assistant", "content": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.prompt_ids is None and self.messages is None:
            raise InvalidRecord("prompt_ids", "a step needs prompt_ids or messages: what did the policy see?")
        if self.response_ids is None and self.response is None:
            raise InvalidRecord("response_ids", "a step needs response_ids or response: what did the policy say?")
        if (self.prompt_ids is None) != (self.response_ids is None):
            missing = "prompt_ids" if self.prompt_ids is None else "response_ids"
            raise InvalidRecord(missing, "prompt_ids and response_ids come together or not at all")
        if self.prompt_ids is not None and not self.prompt_ids:
            raise InvalidRecord("prompt_ids", "is empty: the first response token would have nothing before it")
        if self.logprobs is not None and len(self.logprobs) != len(self.response_ids or ()):
            raise InvalidRecord(
                "logprobs",
                f"{len(self.logprobs)} of them for {len(self.response_ids or ())} response_ids; leave out or give all",
            )
        return self


class Feedback(_Record):
    """Something learned about a step, a trajectory or a prompt group, now or years later.

    Exactly one target: `step_id`, `trajectory_id`, `group_id`, or `response_id` (the provider's own id of the answer). The target
    need not be known yet. What is said is exactly one of the fields from `reward` to `undo`; `comment` may go with any.
    """

    feedback_id: Id = Field(default_factory=new_id)
    step_id: Id | None = None
    trajectory_id: Id | None = None
    group_id: Id | None = None
    response_id: Id | None = None

    name: Name | None = None
    """Which reward, score or label: `unit_tests`, `style`, … Defaults to the kind. The last per (target, name, author) counts."""
    author: Name | None = None
    reward: Number | None = None
    score: Number | None = None
    rating: Number | None = None
    scale: Number | None = None
    """The best possible rating; required with `rating`."""
    label: Name | None = None
    correction: JsonObject | None = None
    """What the step should have answered: an assistant message; a plain string is taken as its text."""
    rejected_id: Id | None = None
    """A preference: the target is better than this step."""
    trainable: bool | None = None
    """Of a step: whether somebody lets it be trained on. False keeps it out; True only takes back that name's and author's own False: what
    the engine, ingest or another one says against it stands."""
    retract: Retractable | None = None
    """Take back what was said of this kind, under this name and by this author, about this target: from now on nothing is said."""
    undo: Id | None = None
    """Take back one feedback about this target, by its id and whoever said it: what was said before it counts again. It cannot be undone
    itself; say it again."""
    comment: Text | None = None
    at: AwareDatetime | None = None
    metadata: JsonObject | None = None

    @field_validator("correction", mode="before")
    @classmethod
    def _text_is_a_message(cls, value: object) -> object:
        return {"role": "assistant", "content": value} if isinstance(value, str) else value

    @property
    def kind(self) -> FeedbackKind:
        """What this feedback says, from the field that says it."""
        return self._said()[0] if self._said() else "comment"

    @property
    def target(self) -> tuple[Literal["step", "trajectory", "group", "response"], str]:
        """The kind of the target and its id."""
        return self._targets()[0]

    def _said(self) -> list[FeedbackKind]:
        said: dict[FeedbackKind, object] = {
            "reward": self.reward,
            "score": self.score,
            "rating": self.rating,
            "label": self.label,
            "correction": self.correction,
            "preference": self.rejected_id,
            "trainable": self.trainable,
            "undo": self.undo,
        }
        kinds: list[FeedbackKind] = [kind for kind, value in said.items() if value is not None]
        if self.retract is not None:
            kinds.append(self.retract)
        return kinds

    def _targets(self) -> list[tuple[Literal["step", "trajectory", "group", "response"], str]]:
        named: list[tuple[Literal["step", "trajectory", "group", "response"], str | None]] = [
            ("step", self.step_id),
            ("trajectory", self.trajectory_id),
            ("group", self.group_id),
            ("response", self.response_id),
        ]
        return [(kind, id) for kind, id in named if id is not None]

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if len(self._targets()) != 1:
            raise InvalidRecord("step_id", "give exactly one of step_id, trajectory_id, group_id, response_id")
        if len(self._said()) > 1:
            raise InvalidRecord(
                self._said()[1] if self.retract is None else "retract",
                f"one feedback says one thing, and this one says {self._said()[0]} already",
            )
        if not self._said() and self.comment is None:
            raise InvalidRecord(
                "reward",
                "says nothing: give reward, score, rating, label, correction, rejected_id, trainable, retract, undo or comment",
            )
        if "trainable" in self._said() and self.step_id is None:
            raise InvalidRecord("trainable", "is said of one step: give its step_id")
        if self.rating is not None and (self.scale is None or not self.scale > 0 or not self.rating <= self.scale):
            raise InvalidRecord("scale", "a rating needs the scale it is on: the best possible rating, above 0")
        return self


class Trajectory(_Record):
    """One rollout of one task: what its steps share, and whether it is over."""

    trajectory_id: Id = Field(default_factory=new_id)
    prompt_id: Id | None = None
    group_id: Id | None = None
    split: Split = "train"
    policy_version: Version | None = None
    metadata: JsonObject | None = None
    state: TrajectoryState = "open"
    reason: Text | None = None
    """Why it failed, or how it ended (an exit code)."""
    marks: dict[str, Annotated[int, Field(ge=0)]] | None = None
    """Each producer's record number when the trajectory ended: it is complete once all of them are committed."""
    lost: Annotated[int, Field(ge=0)] | None = None
    """Calls of it that went through unrecorded."""
    at: AwareDatetime | None = None


def checked(model: type[R], values: object) -> R:
    """`values` as a record of that kind; `InvalidRecord` with the path of the first field that is wrong."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, InvalidRecord):
            raise InvalidRecord(cause.field, cause.reason) from None
        reason = str(
            cause if isinstance(cause, ValueError) else first["msg"]
        )  # pydantic would say "Value error, " first
        raise InvalidRecord(_path(first["loc"]), reason) from None


def something_was_seen(fields: Mapping[str, Any]) -> None:
    """Refuse a step of text, about to be submitted, whose conversation is empty. Raises InvalidRecord.

    Not part of `Step`: a call that was captured may have said nothing new, or nothing that was understood, and is kept as it was.
    """
    nothing_else = fields.get("prompt_ids") is None and fields.get("continues") is None
    if nothing_else and isinstance(messages := fields.get("messages"), list | tuple) and not messages:
        raise InvalidRecord("messages", "is empty, and there are no prompt_ids: what did the policy see?")


def encoded(record: BaseModel) -> bytes:
    """UTF-8 JSON without the absent fields; nulls inside free-form values stay.

    The result is a snapshot: whatever the caller does to its arguments afterwards, this is what was submitted.
    Every valid record can be encoded: free-form values were checked to be JSON of bounded depth.
    """
    return record.model_dump_json(exclude_none=True).encode()


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path
