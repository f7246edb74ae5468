"""Values of no sense in the words of a protocol, and what a parser owes to any exchange at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, Unparseable, dialect_for, parse
from stepwell.sdk.records import Step

ENDS: st.SearchStrategy[End] = st.sampled_from(["complete", "client_disconnect", "upstream_error", "aborted"])

Values = st.SearchStrategy[Any]


def words(*known: str) -> st.SearchStrategy[str]:
    """Short texts, and those that mean something."""
    return st.text(max_size=4) | st.sampled_from(known) if known else st.text(max_size=4)


def scalars(words: st.SearchStrategy[str]) -> Values:
    return st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | words


def anything(words: st.SearchStrategy[str]) -> Values:
    """Small JSON, whose objects have the words for keys."""
    return nested(scalars(words), words, 3, leaves=5)


def nested(leaf: Values, keys: st.SearchStrategy[str], size: int, *, leaves: int) -> Values:
    """JSON of those leaves, in lists of up to three and in objects with up to `size` of those keys."""
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=size), max_leaves=leaves
    )


def shaped(leaf: Values, keys: Sequence[str], size: int = 5) -> Values:
    """JSON with the protocol's own field names, and other things behind them than it has there."""
    return nested(leaf, st.sampled_from(keys), size, leaves=12)


def never_fails(
    exchange: Exchange, aside: type[Exception] | tuple[type[Exception], ...] = Unparseable
) -> Sequence[Step]:
    """Steps that are steps, the same each time, and bodies from them; or none, and a reason why not.

    `aside`: what the parser may say instead.
    """
    try:
        steps = parse(exchange)
    except aside as error:
        assert str(error)
        return []
    assert steps and parse(exchange) == steps
    assert len({step.step_id for step in steps}) == len(steps)
    dialect = dialect_for("POST", "/" + exchange.request.url.split("/", 3)[-1])
    assert dialect is not None and dialect.name == exchange.dialect
    for step in steps:
        assert step.trainable == (step.untrainable_reason is None)
        assert Step.model_validate_json(step.model_dump_json()) == step
        assert json.dumps(dialect.request_of(step)).startswith("{")
    assert json.dumps(dialect.answer_of(steps)).startswith("{")
    return steps
