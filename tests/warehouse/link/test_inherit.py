"""Prompts put together from what was said before; and in which order."""

from __future__ import annotations

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.sdk.records import Step
from stepwell.warehouse._link.continues import Before
from stepwell.warehouse._link.inherit import continued, parents_first
from stepwell.warehouse._parse.draft import Draft, draft


def made(name: str, continues: str | None = None, response_id: str | None = None) -> Draft:
    step = Step(step_id=name, messages=[], response={"content": "a"}, continues=continues, response_id=response_id)
    return draft(step, [{"role": "user", "content": []}], {"role": "assistant", "content": []}, "p", 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=12, unique_by=lambda pair: pair[0]))
def test_whoever_is_continued_comes_first(links: list[tuple[int, int]]) -> None:
    drafts = [made(f"s{own}", f"response:{before}", str(own)) for own, before in links]
    ordered = [one.step.step_id for one in parents_first(drafts)]
    assert sorted(ordered) == sorted(one.step.step_id for one in drafts), "all of them, once"
    parent = dict(links)
    for own, before in links:
        seen = {own}
        while before in parent and before not in seen:
            seen.add(before)
            before = parent[before]
        if before not in seen and parent[own] in parent:  # no circle behind it
            assert ordered.index(f"s{parent[own]}") < ordered.index(f"s{own}")


def test_what_depends_on_nothing_here_keeps_its_order() -> None:
    drafts = [made("a"), made("b", "response:elsewhere"), made("c", "conversation:x"), made("d")]
    assert parents_first(drafts) == drafts
    chain = [made(str(n), f"response:{n - 1}", str(n)) for n in range(3000)]
    assert parents_first(chain[::-1]) == chain, "however long"


def test_the_messages_before_are_held_once() -> None:
    before = Before(messages=(orjson.dumps({"role": "user", "content": [{"type": "text", "text": "q"}]}),))
    whole = continued(made("a"), before)
    assert whole.messages[0] is before.messages[0]
    assert len(whole.messages) == len(whole.prompt_keys) == 2
    assert whole.tools == b"null"
