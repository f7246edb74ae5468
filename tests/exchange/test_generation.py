"""What becomes of an answer, whatever its dialect: steps, their statuses, and why they are not trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell.exchange import End, Exchange, Request, Response, Unparseable
from stepwell.exchange._canonical import Message
from stepwell.exchange._generation import Answer, Asked, Choice, Tokens, steps_of, time_of
from stepwell.sdk.records import Step

QUESTION: Message = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
REPLY: Message = {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}
TOKENS = Tokens(prompt_ids=[1], response_ids=[2, 3], logprobs=[-1.0, -2.0], problem=None)
SAID = Choice(REPLY, finish_reason="stop", tokens=TOKENS)
WHOLE = Answer([SAID], model="served", response_id="r", usage={"total": 3}, terminated=True)


def exchange(
    *,
    status: int | None = 200,
    end: End = "complete",
    error: str | None = None,
    truncated: bool = False,
    **fields: Any,
) -> Exchange:
    response = Response(status, [], b"", end, 3_000_000_000, 2_000_000_000, error=error, truncated=truncated)
    return Exchange("x", "made.up", Request("POST", "http://llm/", [], b"", 1_000_000_000), response, **fields)


def one(answer: Answer, made: Exchange | None = None, asked: Asked | None = None) -> Step:
    (step,) = steps_of(made or exchange(), asked or Asked([QUESTION], model="wanted"), answer)
    return step


def test_all_that_is_known_of_a_step() -> None:
    asked = Asked(
        [QUESTION],
        tools=[{"name": "f"}],
        sampling={"temperature": 0},
        model="wanted",
        continues="response:r0",
        extra={"user": "u"},
    )
    said = replace(SAID, index=2, policy_version=7, policy_label="7", extra={"c": 1})
    answer = replace(WHOLE, choices=[said], extra={"a": 1})
    made = exchange(status=201, error="late", trajectory_id="t", engine="vllm", added=("logprobs",))
    assert one(answer, made, asked) == Step(
        step_id="x.2",
        call_id="x",
        trajectory_id="t",
        dialect="made.up",
        engine="vllm",
        messages=[QUESTION],
        tools=[{"name": "f"}],
        sampling={"temperature": 0},
        model_asked="wanted",
        policy="wanted",
        continues="response:r0",
        model="served",
        fingerprint="vllm:served",
        response_id="r",
        usage={"total": 3},
        started_at=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        first_byte_at=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        first_token_at=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        finished_at=datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC),
        response=REPLY,
        finish_reason="stop",
        status="ok",
        prompt_ids=[1],
        response_ids=[2, 3],
        logprobs=[-1.0, -2.0],
        policy_version=7,
        policy_label="7",
        trainable=True,
        extra={
            "request": {"user": "u"},
            "response": {"a": 1},
            "choice": {"c": 1},
            "transfer_error": "late",
            "http_status": 201,
            "added": ["logprobs"],
        },
    )


def test_every_choice_is_a_step_of_one_call() -> None:
    choices = [replace(SAID, index=index, extra={"place": index}) for index in (0, 3, 1)]
    steps: Sequence[Step] = steps_of(exchange(), Asked([QUESTION]), replace(WHOLE, choices=choices))
    assert [step.step_id for step in steps] == ["x.0", "x.3", "x.1"]
    assert {step.call_id for step in steps} == {"x"}
    assert [step.extra for step in steps] == [{"choice": {"place": place}} for place in (0, 3, 1)]


def test_an_answer_without_choices_is_a_call_that_is_known_to_have_been_made() -> None:
    step = one(Answer(error={"code": 1}, terminated=True), exchange(status=429))
    assert (step.step_id, step.response) == ("x.0", {"role": "assistant", "content": []})
    assert (step.status, step.trainable) == ("error", False)
    assert step.extra == {"error": {"code": 1}, "http_status": 429}


@pytest.mark.parametrize(
    ("engine", "model", "fingerprint"),
    [("sglang", "m", "sglang:m"), (None, "m", "made:m"), ("sglang", None, None), (None, "", None)],
)
def test_a_fingerprint_names_who_answered(engine: str | None, model: str | None, fingerprint: str | None) -> None:
    step = one(replace(WHOLE, model=model), exchange(engine=engine))
    assert (step.fingerprint, step.model) == (fingerprint, model or None)


UNFINISHED = replace(WHOLE, terminated=False, choices=[replace(SAID, finish_reason=None)])
CUT = replace(WHOLE, choices=[replace(SAID, finish_reason="length", cut=True)])
FAILED = replace(WHOLE, choices=[replace(SAID, failed=True)])
NO_END = "the answer ended before its terminal event"
HUNG_UP = "the client hung up before the answer ended"


@pytest.mark.parametrize(
    ("answer", "how", "status", "why"),
    [
        (WHOLE, {}, "ok", None),
        (replace(WHOLE, terminated=False), {}, "ok", None),  # the choice says why it ended
        (replace(UNFINISHED, terminated=True), {}, "ok", None),
        (WHOLE, {"end": "client_disconnect"}, "ok", None),  # all had come when it hung up
        (CUT, {}, "truncated", "the answer was cut at the length limit"),
        (UNFINISHED, {}, "truncated", NO_END),
        (UNFINISHED, {"end": "upstream_error"}, "truncated", NO_END),
        (UNFINISHED, {"end": "client_disconnect"}, "client_disconnect", HUNG_UP),
        (WHOLE, {"truncated": True}, "truncated", NO_END),
        (WHOLE, {"truncated": True, "end": "client_disconnect"}, "client_disconnect", HUNG_UP),
        (Answer(), {"status": None, "end": "upstream_error", "error": "refused"}, "error", "no answer came: refused"),
        (Answer(), {"status": None, "end": "upstream_error"}, "error", "no answer came: the upstream failed"),
        (Answer(), {"status": None, "end": "client_disconnect"}, "client_disconnect", HUNG_UP),
        (replace(WHOLE, error="e"), {}, "error", "the upstream answered with an error (status 200)"),
        (WHOLE, {"status": 400}, "error", "the upstream answered with an error (status 400)"),
        (FAILED, {}, "error", "the upstream answered with an error (status 200)"),
        (WHOLE, {"end": "aborted", "error": "it died"}, "aborted", "it died"),
        (FAILED, {"end": "aborted"}, "aborted", "the capture ended before the answer did"),
    ],
)
def test_how_it_ended_and_why_that_keeps_it_from_training(
    answer: Answer, how: dict[str, Any], status: str, why: str | None
) -> None:
    step = one(answer, exchange(**how))
    assert (step.status, step.untrainable_reason, step.trainable) == (status, why, why is None)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (replace(SAID, tokens=Tokens()), "the engine gave no token ids"),
        (replace(SAID, tokens=replace(TOKENS, problem="odd ids")), "odd ids"),
        (replace(SAID, policy_label="3..5"), "sampled by several policy versions: 3..5"),
        (replace(SAID, policy_label="v1.5"), None),
        (replace(SAID, tokens=Tokens(), policy_label="3..5"), "the engine gave no token ids"),
        (replace(SAID, tokens=Tokens(), cut=True), "the answer was cut at the length limit"),
    ],
)
def test_what_else_keeps_a_step_from_training(choice: Choice, reason: str | None) -> None:
    step = one(replace(WHOLE, choices=[choice]))
    assert (step.untrainable_reason, step.trainable) == (reason, reason is None)


def test_a_step_says_nothing_of_what_nobody_said() -> None:
    said = replace(SAID, finish_reason="")
    step = one(replace(WHOLE, choices=[said], response_id="", usage=None), asked=Asked([], model=""))
    known = json.loads(step.model_dump_json(exclude_unset=True))
    absent = {
        "extra",
        "finish_reason",
        "response_id",
        "usage",
        "model_asked",
        "policy",
        "sampling",
        "tools",
        "continues",
    }
    assert not known.keys() & absent
    assert known["messages"] == []


def test_what_is_no_valid_step_is_unparseable() -> None:
    with pytest.raises(Unparseable, match=r"^the exchange gives no valid step: "):
        one(replace(WHOLE, usage={"at": object()}))


def test_times() -> None:
    assert time_of(1_500_000_000) == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert time_of(0) is None and time_of(None) is None
