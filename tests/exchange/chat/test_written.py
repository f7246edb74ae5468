"""A message's two forms made at once are what the one and the other come to by themselves."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange.canonical import canonical_message, compared, written

TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.sampled_from(
        [
            "<think>a</think>\n\nb",
            "a</think>",
            "x-anthropic-billing-header: cch=1; b",
            "<untrusted_context>\nx</untrusted_context>",
            '"\\\n\u2028',
        ]
    ),
)
ROLE = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "odd", "", 'a"b'])


@settings(max_examples=300, deadline=None)
@given(ROLE, TEXT, st.sampled_from([{}, {"name": "n"}, {"reasoning_content": "r"}, {"tool_call_id": "c"}]))
def test_as_made_one_after_the_other(role: str, text: str, more: dict[str, Any]) -> None:
    for message in ({"role": role, "content": text, **more}, {"content": text, "role": role}):
        own, kept, form = written(message)
        canonical = canonical_message(message)
        assert (kept, form) == (orjson.dumps(canonical), compared(canonical))
        assert canonical_message(own) == canonical


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": 5, "content": "a"},
        {"role": ["user"], "content": "a"},
        {"content": "a"},
        {"role": "user", "content": 5},
    ],
)
def test_what_is_no_message_is_refused(message: Any) -> None:
    with pytest.raises(ValueError):
        written(message)
