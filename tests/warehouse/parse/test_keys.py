"""What conversations are found again by."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange.canonical import following_key, prefix_keys
from stepwell.warehouse._parse.keys import answered, asked_key, begun, goes_on_from, gone_on, keys_of


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}] if text else []}


SYSTEM, ASKED, ANSWER = message("system", "s"), message("user", "q"), message("assistant", "a")
talks = st.lists(
    st.builds(message, st.sampled_from(["system", "developer", "user", "assistant"]), st.sampled_from(["a", "b"])),
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(talks)
def test_keys_are_those_of_the_canonical_form(talk: list[dict[str, Any]]) -> None:
    keys = keys_of(talk, ANSWER)
    whole = prefix_keys(talk)
    assert keys.prompt == tuple(key.hex() for key in whole)
    assert keys.conversation == (following_key(whole, ANSWER).hex() if talk else None)


@settings(max_examples=100, deadline=None)
@given(talks, talks)
def test_a_later_prompt_has_the_keys_of_the_conversation(
    talk: list[dict[str, Any]], more: list[dict[str, Any]]
) -> None:
    before, after = keys_of(talk, ANSWER, "m"), keys_of([*talk, ANSWER, *more], None, "m")
    if talk:
        assert after.prompt[len(talk)] == before.conversation
    if before.rest_conversation is not None:
        assert after.rest[len(talk) - before.leading] == before.rest_conversation


def test_without_the_system_prompt() -> None:
    one = keys_of([SYSTEM, ASKED], ANSWER, "m")
    other = keys_of([message("system", "t"), ASKED], ANSWER, "m")
    assert one.conversation != other.conversation
    assert one.rest_conversation == other.rest_conversation
    assert keys_of([SYSTEM, ASKED], ANSWER, "n").rest_conversation != one.rest_conversation, "another model"
    assert one.rest_conversation not in one.prompt
    assert keys_of([ASKED], ANSWER).rest_conversation is None, "nothing is left out"
    assert keys_of([SYSTEM], ANSWER).rest_conversation is None, "nothing is left"


def test_what_is_missing_sets_a_conversation_apart() -> None:
    known, lacking, other = (
        keys_of([SYSTEM, ASKED], ANSWER, "m", missing) for missing in (None, "response:1", "response:2")
    )
    for name in ("conversation", "rest_conversation"):
        assert len({getattr(keys, name) for keys in (known, lacking, other)}) == 3
    assert len({keys.prompt for keys in (known, lacking, other)}) == 3


def test_an_unanswered_prompt_has_no_conversation() -> None:
    assert keys_of([ASKED], None).conversation is None
    assert keys_of([SYSTEM, ASKED], message("assistant", "")).rest_conversation is None


def test_the_last_answer_that_a_prompt_repeats() -> None:
    assert keys_of([ASKED], ANSWER).last_answer == -1
    assert keys_of([ASKED, ANSWER, ASKED], None).last_answer == 1
    assert keys_of([ASKED, ANSWER, ASKED, ANSWER], None).last_answer == 1, "the last one is begun for the model"


def test_what_is_asked() -> None:
    keys = keys_of([ASKED], None)
    asked = asked_key(keys, "d", "m", b"null")
    assert asked == asked_key(keys_of([ASKED], ANSWER), "d", "m", b"null")
    others = [("d", "n", b"null"), ("d", "m", b"[]"), ("d", None, b"null"), ("e", "m", b"null"), (None, "m", b"null")]
    assert len({asked, *(asked_key(keys, *other) for other in others)}) == 6
    assert asked_key(keys_of([], None), "d", "m", b"null") is None


@settings(max_examples=200, deadline=None)
@given(talks, st.integers(0, 6), st.sampled_from([None, ANSWER]), st.sampled_from([None, "m"]), st.booleans())
def test_a_prompt_that_goes_on_has_the_keys_of_the_whole(
    talk: list[dict[str, Any]], cut: int, answer: dict[str, Any] | None, model: str | None, missing: bool
) -> None:
    before = "response:1" if missing else None
    start = begun(talk[:cut], model, before)
    assert goes_on_from(start, model) == (start.opened and not missing)
    if start.opened:
        assert answered(gone_on(start, talk[cut:]), answer) == keys_of(talk, answer, model, before)
    assert not goes_on_from(start, "another model")
