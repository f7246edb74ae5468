"""How a step's tokens relate to its parent's, and why they drifted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.sdk.records import Step
from stepwell.warehouse._link.link import Linked

Place = Callable[[list[Step]], list[Linked]]
PROMPT, RESPONSE = list(range(100)), list(range(500, 530))
QUESTION = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}
MORE = {"role": "user", "content": "more"}


def parent(**more: Any) -> Step:
    said = {"messages": [QUESTION], "response": ANSWER, **more}
    return Step(step_id="p", trajectory_id="t", prompt_ids=PROMPT, response_ids=RESPONSE, **said)


def child(ids: list[int], **more: Any) -> Step:
    said = {"trajectory_id": "t", "parent_id": "p", "messages": [QUESTION, ANSWER, MORE], "response": ANSWER, **more}
    return Step(step_id="c", prompt_ids=ids, response_ids=[1], **said)


def changed(at: int) -> list[int]:
    whole = [*PROMPT, *RESPONSE, 7, 8]
    return [*whole[:at], 9999, *whole[at + 1 :]]


@pytest.mark.parametrize(
    ("step", "drift"),
    [
        (child([*PROMPT, *RESPONSE, 7, 8]), None),
        (child([*PROMPT, *RESPONSE]), None),
        (child(changed(110)), (110, "retokenised")),
        (child(changed(100)), (100, "retokenised")),
        (child(changed(99)), (99, "template")),
        (child(changed(0)), (0, "template")),
        (child(changed(50), messages=[MORE, ANSWER, MORE]), (50, "history")),
        (child(changed(110), messages=[QUESTION, {**ANSWER, "content": "b"}, MORE]), (110, "history")),
        (child(PROMPT[:60]), (60, "truncated")),
        (child([*PROMPT, *RESPONSE[:5]]), (105, "truncated")),
        (child(changed(50), messages=None, response=None), (50, "unknown")),
        (child([*PROMPT, *RESPONSE, 7], parent_id="gone"), (None, "parent not in memory")),
    ],
)
def test_relation(placed: Place, step: Step, drift: tuple[int | None, str] | None) -> None:
    assert placed([parent(), step])[1].drift == drift


def test_nothing_to_compare(placed: Place) -> None:
    first = parent()
    assert placed([first])[0].drift is None
    texts = child([1]).model_copy(update={"prompt_ids": None, "response_ids": None})
    assert placed([first, texts])[1].drift is None
    words = first.model_copy(update={"prompt_ids": None, "response_ids": None})
    assert placed([words, child(changed(3))])[1].drift is None


def test_what_clients_leave_out_is_no_change_of_history(placed: Place) -> None:
    """Old reasoning is dropped by the template, and by the client: the ids differ, what was said does not."""
    thought = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "a"}]
    [_, item] = placed([parent(response={"role": "assistant", "content": thought}), child(changed(101))])
    assert item.drift == (101, "retokenised")


def test_a_parent_that_is_not_the_base(placed: Place) -> None:
    """What a step is stored as says nothing about what it continues."""
    sibling = Step(step_id="s", trajectory_id="t", prompt_ids=changed(105), response_ids=[1])
    [_, _, item] = placed([parent(), sibling, child([*changed(105), 3])])
    assert (item.delta.base_id, item.drift) == ("s", (105, "retokenised"))


def test_a_parent_of_another_trajectory(placed: Place) -> None:
    """Named by the provider's id, with only what is new sent again."""
    first = parent(response_id="r", dialect="openai.responses")
    more = {"trajectory_id": "u", "parent_id": None, "messages": [MORE], "continues": "response:r"}
    step = child(changed(99), **more)
    [_, item] = placed([first, step])
    assert (item.parent_id, item.trajectory_id, item.drift) == ("p", "u", (99, "template"))
