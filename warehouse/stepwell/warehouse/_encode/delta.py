"""Steps as differences: a step stores what its prompt does not share with an earlier step of its trajectory.

Turn t's prompt contains the turns before t, so storing prompts whole is quadratic. The *base* of a step is the recent step of the
trajectory that makes the difference smallest, which need not be its parent: this is storage, not lineage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.warehouse._encode.align import RUN, Ids, Ops, aligned, common_prefix, ops_of, own_of
from stepwell.warehouse._encode.align_texts import aligned_texts, common_beginning
from stepwell.warehouse._encode.content import Hashed, hashed
from stepwell.warehouse._parse.draft import Draft

MAX_DEPTH = 1024
"""A step at this depth is stored whole, so that reading one step never follows a longer chain."""

_LITTLE = 4 * RUN
"""So few ids behind the common beginning are not worth looking up anywhere else."""


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Base:
    """What a later step can be a difference to."""

    step_id: str
    depth: int
    tokens: Ids | None
    conversation: tuple[bytes, ...]
    tools: bytes
    prompt_length: int = 0
    """How many of the tokens are its prompt."""
    key: str | None = None
    """The key of its conversation."""
    hashed: Hashed | None = None
    """Its prompt, to go on from; None where it was read from the warehouse."""


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Delta:
    """How a step is stored; `base_id` is None for a key frame, which stands alone."""

    base_id: str | None
    depth: int
    prompt_ops: Ops
    """Over the base's prompt and response."""
    own_ids: Ids | None
    messages_ops: Ops
    """Over the base's messages with its response as the last."""
    own_messages: tuple[bytes, ...]
    tools: bytes | None
    """None: the same as the base's."""

    @property
    def cost(self) -> int:
        """Bytes that it takes, about, as they compress."""
        ids = 0 if self.own_ids is None else len(self.own_ids)
        texts = sum(map(len, (*self.own_messages, self.tools or b"")))
        return 2 * (ids + len(self.prompt_ops) + len(self.messages_ops)) + texts // 4


def encode(draft: Draft, bases: Sequence[Base], parent_id: str | None = None, longest: int | None = None) -> Delta:
    """The cheapest way to store `draft`, given the steps it may refer to, the newest last.

    `longest`: no base has more tokens, where that is known.
    """
    if longest is not None and bases and (delta := _next_turn(draft, bases[-1], longest)) is not None:
        return delta
    usable = [base for base in bases if base.depth + 1 < MAX_DEPTH and base.step_id != draft.step.step_id]
    usable.reverse()
    found, shared, done = _begins_most(draft, usable)
    if found is None or done:
        return _key_frame(draft) if found is None else _difference(draft, found, shared)
    # A changed system prompt leaves no beginning in common: then the parent, or the step before, has the rest of it.
    parent = next((base for base in usable if base.step_id == parent_id), found)
    tried = {base.step_id: base for base in (found, parent, usable[0])}
    return min((_difference(draft, base) for base in tried.values()), key=lambda delta: delta.cost)


def _next_turn(draft: Draft, base: Base, longest: int) -> Delta | None:
    """`draft` as a difference to the newest base, if it goes on from all of that and no other can have more of it."""
    tokens, before = draft.tokens, base.tokens
    if tokens is None or before is None or base.depth + 1 >= MAX_DEPTH or base.step_id == draft.step.step_id:
        return None
    shared, length = len(before), draft.prompt_length
    if not RUN <= shared <= length or longest > shared:
        return None
    prompt = tokens[:length]
    return _difference(draft, base, shared) if common_prefix(prompt, before) == shared else None


def as_base(draft: Draft, delta: Delta, base: Base | None) -> Base:
    """The step of `draft` as something later steps can refer to. `base`: the one of `delta`."""
    step_id, key = draft.step.step_id, draft.conversation_key
    conversation = _held_once(draft.conversation, delta.messages_ops, base)
    tools = (
        draft.tools if base is None or delta.tools is not None else base.tools
    )  # one object for all that have the same
    prompt = _hashed(draft, delta, base)
    return Base(step_id, delta.depth, draft.tokens, conversation, tools, draft.prompt_length, key, prompt)


def _held_once(conversation: tuple[bytes, ...], ops: Ops, base: Base | None) -> tuple[bytes, ...]:
    """What a step shares with its base is the same objects in memory, too."""
    if base is None or not ops:
        return conversation
    before = base.conversation
    if len(ops) == 3:  # as nearly always: the beginning, then what is new
        return (*before[ops[0] : ops[0] + ops[1]], *conversation[ops[1] :])
    said = list[bytes]()
    for source, copied, own in zip(ops[0::3], ops[1::3], ops[2::3], strict=True):
        said += before[source : source + copied]
        said += conversation[len(said) : len(said) + own]
    return (*said, *conversation[len(said) :])


def _hashed(draft: Draft, delta: Delta, base: Base | None) -> Hashed:
    """The draft's prompt, hashed from where it goes on from the one of its base."""
    ids = None if draft.tokens is None else draft.tokens[: draft.prompt_length]
    if base is None or base.hashed is None:
        return hashed(ids, draft.messages)
    return hashed(ids, draft.messages, base.hashed, _shared(delta.prompt_ops), _shared(delta.messages_ops))


def _shared(ops: Ops) -> int:
    """How much of the beginning is that of the base."""
    return ops[1] if ops and ops[0] == 0 else 0


def _begins_most(draft: Draft, usable: list[Base]) -> tuple[Base | None, int | None, bool]:
    """The base that shares the longest beginning, the newest of equals; how many ids that are, where ids were compared; and whether
    there is no need to look further.

    A longer beginning than the best so far has the same id right behind that: two numbers are compared before all are.
    """
    if draft.tokens is None:
        return _begins_most_texts(draft, usable)
    prompt = draft.tokens[: draft.prompt_length]
    best, shared, whole = usable[0] if usable else None, -1, 0
    for base in usable:
        if base.tokens is None or len(base.tokens) <= shared:
            continue
        if shared == len(prompt) or (shared >= 0 and base.tokens[shared] != prompt[shared]):
            continue
        if (length := common_prefix(prompt, base.tokens)) > shared:
            best, shared, whole = base, length, len(base.tokens)
    if shared < 0:
        return _begins_most_texts(draft, usable)
    return best, shared, shared >= RUN and (shared == whole or len(prompt) - shared <= _LITTLE)


def _begins_most_texts(draft: Draft, usable: list[Base]) -> tuple[Base | None, None, bool]:
    best, shared = usable[0] if usable else None, 0
    for base in usable:
        # As with ids: a longer beginning has the same message right behind the best so far.
        if base.conversation[shared : shared + 1] == draft.messages[shared : shared + 1] != () and (
            (length := common_beginning(draft.messages, base.conversation)) > shared
        ):
            best, shared = base, length
    whole = best is not None and shared == len(best.conversation)
    return best, None, bool(shared) and (whole or shared == len(draft.messages))


def _key_frame(draft: Draft) -> Delta:
    own = None if draft.tokens is None else draft.tokens[: draft.prompt_length]
    return Delta(None, 0, (), own, (), draft.messages, draft.tools if draft.tools != b"null" else None)


def _difference(draft: Draft, base: Base, shared: int | None = None) -> Delta:
    """`draft` as a difference to `base`, or a key frame where they have nothing in common. `shared`: of the ids, where it is known."""
    prompt_ops, own_ids = _ids_of(draft, base, shared)
    messages = draft.messages
    runs = aligned_texts(messages, base.conversation)
    if not prompt_ops and not runs:
        return _key_frame(draft)
    messages_ops = ops_of(runs, len(messages))
    if len(messages_ops) == 3:  # as nearly always: the beginning, then what is new
        own_messages = messages[messages_ops[1] :]
    elif messages_ops:
        at, own = 0, list[bytes]()
        for copied, count in zip(messages_ops[1::3], messages_ops[2::3], strict=True):
            at += copied + count
            own += messages[at - count : at]
        own_messages = tuple(own)
    else:
        own_messages = messages
    tools = None if draft.tools == base.tools else draft.tools
    return Delta(base.step_id, base.depth + 1, prompt_ops, own_ids, messages_ops, own_messages, tools)


def _ids_of(draft: Draft, base: Base, shared: int | None) -> tuple[Ops, Ids | None]:
    if draft.tokens is None:
        return (), None
    prompt = draft.tokens[: draft.prompt_length]
    if base.tokens is None:
        return (), prompt
    if shared is None:
        shared = common_prefix(prompt, base.tokens)
    if shared >= RUN and (shared == len(base.tokens) or len(prompt) - shared <= _LITTLE):
        return (0, shared, len(prompt) - shared), prompt[shared:]
    runs = aligned(prompt, base.tokens, shared)
    ops = ops_of(runs, len(prompt))
    return ops, own_of(prompt, ops)
