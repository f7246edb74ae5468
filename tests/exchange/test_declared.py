"""The policy that was declared when a call began and when it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stepwell.exchange import (
    Declared,
    Exchange,
    declared_of,
    exchange_from,
    parse,
    request_entry,
    response_entry,
    stamped,
)
from stepwell.sdk.records import Step
from stepwell.spool import Record

Make = Callable[..., Exchange]
THREE, FOUR = Declared("p", 3), Declared("p", 4, "step-4")
ANSWER = {"id": "r", "choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}]}


def declared(exchange: Exchange, start: Declared | None, end: Declared | None) -> Step:
    (step,) = parse(replace(exchange, declared=start, response=replace(exchange.response, declared=end)))
    return step


def test_a_call_carries_what_was_declared(exchange: Make) -> None:
    step = declared(exchange(ANSWER), FOUR, FOUR)
    assert (step.policy, step.policy_version, step.policy_label) == ("asked", 4, "step-4")


def test_one_across_two_versions_is_of_none(exchange: Make) -> None:
    step = declared(exchange(ANSWER), THREE, FOUR)
    assert (step.policy_version, step.policy_label, step.trainable) == (None, "3..step-4", False)


def test_nothing_at_the_start_is_nothing_and_nothing_at_the_end_is_no_change(exchange: Make) -> None:
    assert declared(exchange(ANSWER), None, THREE).policy_version is None
    assert declared(exchange(ANSWER), THREE, None).policy_version == 3


def test_the_engine_and_the_caller_know_better(exchange: Make) -> None:
    said = exchange({**ANSWER, "metadata": {"weight_version": "9"}})
    assert declared(said, THREE, FOUR).policy_version == 9
    mixed = exchange({**ANSWER, "metadata": {"weight_versions": ["1", "2"]}})
    assert declared(mixed, THREE, THREE).policy_label == "1..2"
    called = exchange(ANSWER)
    called = replace(called, request=replace(called.request, headers=[("x-stepwell-policy-version", "7")]))
    assert declared(called, THREE, THREE).policy_version is None  # whoever takes its claim says 7


def test_a_reason_not_to_train_stays_the_first_one() -> None:
    step = Step(prompt_ids=[1], response_ids=[2], trainable=False, untrainable_reason="cut")
    found = stamped(step, THREE, FOUR)
    assert (found.untrainable_reason, found.policy) == ("cut", "p")
    long = stamped(step, Declared("p", 1, "a" * 200), Declared("p", 1, "b" * 200))
    assert long.policy_label is not None and len(long.policy_label) == 256


@pytest.mark.parametrize("start", [None, THREE, FOUR])
@pytest.mark.parametrize("end", [None, FOUR])
def test_it_travels_through_the_spool(exchange: Make, start: Declared | None, end: Declared | None) -> None:
    whole = exchange(ANSWER)
    asked = request_entry("x", whole.request, start, dialect="openai.chat")
    answered = response_entry("x", replace(whole.response, declared=end), "openai.chat")
    records = [
        Record(number, entry.id, entry.kind, entry.ref, 0, entry.head, entry.body)
        for number, entry in enumerate((asked, answered))
    ]
    found = exchange_from(*records)
    assert (found.declared, found.response.declared) == (start, end)
    assert b"declared" in asked.head or start is None  # nothing is written where nothing was declared
    assert ("declared" in json.loads(answered.head)) == (end is not None)


@pytest.mark.parametrize(
    "value", [None, [], "p", ["p", 1], ["", 1, None], ["p", True, None], ["p", 2**63, None], ["p", 1, ""], [1, 1, None]]
)
def test_what_is_no_declaration(value: Any) -> None:
    assert declared_of(value) is None


def test_plain_and_back() -> None:
    for one in (THREE, FOUR):
        assert declared_of(one.plain()) == declared_of(tuple(one.plain())) == one
