"""Rows of messages from corrections and preferences."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader.adapters import dpo_rows, sft_rows
from stepwell.reader.adapters._messages import chat_messages
from stepwell.sdk.records import Feedback

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
ASKED = [{"role": "user", "content": "What is it?"}]


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@pytest.fixture
def answered(told: Any) -> Any:
    """Two answers to one question, and one to another."""
    told.step("a", "t", [1], [2], messages=ASKED, response="A cat.", response_id="r-a")
    told.step("b", "u", [1], [3], messages=ASKED, response="A dog.")
    told.step("c", "v", [4], [5], messages=[{"role": "user", "content": "And that?"}], response="A tree.")
    return told


def test_a_correction_is_a_completion_and_a_pair(answered: Any) -> None:
    answered.tell("feedback", Feedback(step_id="a", correction=said("A lynx.")))
    warehouse = answered.commit()
    assert sft_rows(warehouse).rows == [{"prompt": ASKED, "completion": [said("A lynx.")]}]
    assert dpo_rows(warehouse).rows == [{"prompt": ASKED, "chosen": [said("A lynx.")], "rejected": [said("A cat.")]}]
    assert dpo_rows(warehouse, corrections=False).rows == []


def test_a_correction_may_name_the_provider_s_answer(answered: Any) -> None:
    answered.tell("feedback", Feedback(response_id="r-a", correction=said("A lynx.")))
    assert len(sft_rows(answered.commit()).rows) == 1


def test_a_preference_is_a_pair_of_answers_to_one_prompt(answered: Any) -> None:
    answered.tell("feedback", Feedback(step_id="b", rejected_id="a"))
    warehouse = answered.commit()
    assert dpo_rows(warehouse).rows == [{"prompt": ASKED, "chosen": [said("A dog.")], "rejected": [said("A cat.")]}]
    assert sft_rows(warehouse).rows == []


def test_what_gives_no_row_is_counted_by_reason(answered: Any) -> None:
    for number, rejected in enumerate(("c", "gone")):
        answered.tell("feedback", Feedback(step_id="a", rejected_id=rejected, name=f"n{number}"))
    answered.tell("feedback", Feedback(step_id="c", correction=said("A tree.")))
    found = dpo_rows(answered.commit())
    assert found.rows == []
    assert found.skipped == {"two steps of different prompts": 1, "a step that is not there": 1, "two equal answers": 1}


def test_what_was_taken_back_and_what_is_not_for_training_gives_none(answered: Any) -> None:
    answered.step("e", "w", [1], [2], messages=ASKED, response="Hm.", split="eval")
    answered.tell("feedback", Feedback(step_id="e", correction=said("A lynx.")))
    answered.tell("feedback", Feedback(step_id="b", rejected_id="e"))
    answered.tell("feedback", Feedback(step_id="a", correction=said("A lynx.")))
    answered.tell("feedback", Feedback(step_id="a", retract="correction"))
    warehouse = answered.commit()
    assert sft_rows(warehouse).rows == []
    assert dpo_rows(warehouse).skipped == {"a step of the eval split": 1}


def test_the_condition_and_the_version_count(answered: Any) -> None:
    answered.tell("feedback", Feedback(step_id="a", correction=said("A lynx.")))
    before = answered.commit().version()
    answered.tell("feedback", Feedback(step_id="c", correction=said("A bush.")))
    warehouse = answered.commit()
    assert len(sft_rows(warehouse).rows) == 2 and len(sft_rows(warehouse, at=before).rows) == 1
    assert [row["completion"] for row in sft_rows(warehouse, where="step_id = 'c'").rows] == [[said("A bush.")]]


def test_tools_and_what_they_said_are_rendered(told: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    messages = [
        {"role": "system", "content": "Look."},
        *ASKED,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "fur"},
    ]
    told.step("a", "t", [1], [2], messages=messages, response="A cat.", tools=TOOLS)
    told.tell("feedback", Feedback(step_id="a", correction=said("A lynx.")))
    (row,) = sft_rows(told.commit()).rows
    assert row["tools"] == TOOLS
    assert row["prompt"][0] == {"role": "system", "content": "Look."}
    assert row["prompt"][2]["tool_calls"] == [{**call, "function": {"name": "look", "arguments": {"at": 1}}}]
    assert row["prompt"][3] == {"role": "tool", "tool_call_id": "c1", "content": "fur"}


def test_what_no_chat_template_renders_is_counted(told: Any) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    told.step("a", "t", [1], [2], messages=[{"role": "user", "content": [picture]}], response="A cat.")
    told.tell("feedback", Feedback(step_id="a", correction=said("A lynx.")))
    found = sft_rows(told.commit())
    assert found.rows == [] and found.skipped == {"a part of type image": 1}


def test_tokens_alone_give_no_messages(told: Any) -> None:
    told.step("a", "t", [1], [2])
    told.tell("feedback", Feedback(step_id="a", correction=said("A lynx.")))
    assert sft_rows(told.commit()).skipped == {"a step without text": 1}


def thinking(thought: str, text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "reasoning_content": thought}


@pytest.fixture
def thought(told: Any) -> Any:
    """Two answers to one question, with what was thought before; one without, and one of which the provider told nothing."""
    earlier = [*ASKED, thinking("Whiskers.", "A cat."), {"role": "user", "content": "Sure?"}]
    secret = {"type": "reasoning", "text": "", "redacted": "c2VjcmV0"}
    withheld = {"role": "assistant", "content": [secret, {"type": "text", "text": "A fox."}]}
    said_by = {
        "a": thinking("Pointed ears.", "Yes."),
        "b": thinking("A tail.", "No."),
        "c": said("Perhaps."),
        "d": withheld,
    }
    for place, (name, answer) in enumerate(said_by.items()):
        told.step(name, f"t{place}", [1], [2 + place], messages=earlier, response=answer)
    return told


def test_a_prompt_has_the_reasoning_of_earlier_turns(thought: Any) -> None:
    thought.tell("feedback", Feedback(step_id="a", correction=said("A lynx.")))
    (row,) = sft_rows(thought.commit()).rows
    assert row["prompt"][1] == thinking("Whiskers.", "A cat.")
    assert row["completion"] == [said("A lynx.")], "nothing of what led to the answer that was corrected"


@pytest.mark.parametrize("reasoning", ["paired", "keep", "drop"])
def test_a_correction_is_not_compared_by_whether_it_thinks(thought: Any, reasoning: Any) -> None:
    thought.tell("feedback", Feedback(step_id="a", correction=said("A lynx.")))
    thought.tell("feedback", Feedback(step_id="b", correction=thinking("Tufts.", "A lynx.")))
    warehouse = thought.commit()
    assert sft_rows(warehouse).rows[1]["completion"] == [thinking("Tufts.", "A lynx.")]
    without, with_its_own = dpo_rows(warehouse, reasoning=reasoning).rows
    shown = thinking("Pointed ears.", "Yes.") if reasoning == "keep" else said("Yes.")
    assert (without["chosen"], without["rejected"]) == ([said("A lynx.")], [shown])
    pair = [[thinking("Tufts.", "A lynx.")], [thinking("A tail.", "No.")]]
    if reasoning == "drop":
        pair = [[said("A lynx.")], [said("No.")]]
    assert [with_its_own["chosen"], with_its_own["rejected"]] == pair


@pytest.mark.parametrize(
    ("rejected", "shown"),
    [("b", [thinking("Pointed ears.", "Yes."), thinking("A tail.", "No.")]), ("c", [said("Yes."), said("Perhaps.")])],
)
def test_of_two_answers_both_think_or_neither(thought: Any, rejected: str, shown: list[dict[str, Any]]) -> None:
    thought.tell("feedback", Feedback(step_id="a", rejected_id=rejected))
    (row,) = dpo_rows(thought.commit()).rows
    assert [*row["chosen"], *row["rejected"]] == shown


def test_reasoning_that_was_withheld_is_none(thought: Any) -> None:
    thought.tell("feedback", Feedback(step_id="a", rejected_id="d"))
    warehouse = thought.commit()
    (row,) = dpo_rows(warehouse).rows
    assert (row["chosen"], row["rejected"]) == ([said("Yes.")], [said("A fox.")])
    (kept,) = dpo_rows(warehouse, reasoning="keep").rows
    assert (kept["chosen"], kept["rejected"]) == ([thinking("Pointed ears.", "Yes.")], [said("A fox.")])


def test_answers_that_differ_only_in_one_s_reasoning_are_equal(thought: Any) -> None:
    thought.tell("feedback", Feedback(step_id="a", correction=said("Yes.")))
    warehouse = thought.commit()
    assert dpo_rows(warehouse).skipped == {"two equal answers": 1}
    assert len(dpo_rows(warehouse, reasoning="keep").rows) == 1


def test_another_way_with_reasoning_is_refused(thought: Any) -> None:
    with pytest.raises(InvalidRecord, match="must be one of paired, keep, drop"):
        dpo_rows(thought.commit(), reasoning="hide")  # type: ignore[arg-type]


def test_parts_keep_their_order() -> None:
    parts = [
        {"type": "text", "text": "Here:"},
        {"type": "tool_result", "id": "c1", "content": [{"type": "text", "text": "fur"}]},
    ]
    first, second = chat_messages([{"role": "user", "content": [*parts]}])
    assert (first, second) == (
        {"role": "user", "content": "Here:"},
        {"role": "tool", "tool_call_id": "c1", "content": "fur"},
    )
