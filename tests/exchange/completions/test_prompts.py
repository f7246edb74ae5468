"""Prompts that are no messages, and which choices are whose."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._completions.prompts import Prompt, grouped, prompt_of, prompts_of, suffix_of
from stepwell.sdk.records import Step


@pytest.mark.parametrize(
    ("value", "prompts"),
    [
        ("a", [Prompt("a")]),
        (["a", "b"], [Prompt("a"), Prompt("b")]),
        ([1, 2], [Prompt(ids=[1, 2])]),
        ([[1], [2, 3]], [Prompt(ids=[1]), Prompt(ids=[2, 3])]),
        (["a", [1]], [Prompt("a"), Prompt(ids=[1])]),
        (None, [Prompt("")]),
        ("", [Prompt("")]),
        ([], [Prompt("")]),
    ],
)
def test_every_form_of_prompt(value: Any, prompts: list[Prompt]) -> None:
    assert prompts_of(value) == prompts


@pytest.mark.parametrize("value", [5, True, False, 0, {}, {"a": 1}, [1, "a"], [[["a"]]], [None], [1.5], [[1, True]]])
def test_what_is_no_prompt_is_unparseable(value: Any) -> None:
    with pytest.raises(Unparseable):
        prompts_of(value)


def test_choices_go_to_the_prompts_in_rows() -> None:
    assert grouped([3, 0, 1, 2], 2, 2) == [[0, 1], [2, 3]]
    assert grouped([2], 3, None) == [[0], [1], [2]]
    assert grouped([], 2, 3) == [[0], [3]]
    assert grouped([0, 7], 1, 1) == [[0, 7]]
    assert grouped([0], 2, "many") == grouped([0], 2, 0) == grouped([0], 2, True) == [[0], [1]]
    for wrong in ([4], [-1]):
        with pytest.raises(Unparseable):
            grouped(wrong, 2, 2)


@pytest.mark.parametrize("prompt", [Prompt("a"), Prompt(""), Prompt(ids=[1, 2]), Prompt(ids=[])])
@pytest.mark.parametrize("suffix", ["", "end"])
def test_a_prompt_comes_back_from_its_step(prompt: Prompt, suffix: str) -> None:
    step = Step(messages=[prompt.message(suffix)], response={"role": "assistant", "content": []})
    assert prompt_of(step) == (prompt.text if prompt.ids is None else prompt.ids)
    assert suffix_of(step) == ({"suffix": suffix} if suffix else {})
