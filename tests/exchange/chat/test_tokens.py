"""Token ids and logprobs: taken only where they agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange._chat.tokens import left_over, policy_of, tokens_of
from stepwell.exchange._generation import Tokens


def logprobs(*entries: Any) -> dict[str, Any]:
    return {"logprobs": {"content": list(entries)}}


def lp(value: Any = -0.5, **more: Any) -> dict[str, Any]:
    return {"logprob": value, **more}


ROOT = {"prompt_token_ids": [1, 2]}
IDS = {"token_ids": [3, 4]}


def test_vllm() -> None:
    assert tokens_of(ROOT, {**IDS, **logprobs(lp(-1), lp(-2.5))}, 2) == Tokens([1, 2], [3, 4], [-1.0, -2.5], None)


def test_sglang() -> None:
    choice = {"prompt_token_ids": [1, 2], "response_token_ids": [3], **logprobs(lp(0))}
    assert tokens_of({}, choice, None) == Tokens([1, 2], [3], [0.0], None)


def test_llama_cpp() -> None:
    assert tokens_of(ROOT, logprobs(lp(id=3), lp(id=4)), 2) == Tokens([1, 2], [3, 4], [-0.5, -0.5], None)


def test_ids_without_logprobs_are_ids() -> None:
    assert (
        tokens_of(ROOT, IDS, 2)
        == tokens_of(ROOT, {**IDS, "logprobs": None}, None)
        == Tokens([1, 2], [3, 4], None, None)
    )


@pytest.mark.parametrize(
    ("root", "choice"),
    [
        ({}, {}),
        (ROOT, {}),
        ({}, IDS),
        (ROOT, logprobs(lp(), lp())),
        (ROOT, logprobs(lp(id=3), lp())),
        *(
            ({"prompt_token_ids": wrong}, IDS)
            for wrong in ([], [True], [7, False], [-1], [2**31], [1.0], ["1"], [None], "12", {"0": 1})
        ),
        *((ROOT, {"token_ids": wrong}) for wrong in ([], [1, False], [1, -1], [2**31], [2**70], [1, [2]], 5)),
    ],
)
def test_ids_that_are_missing_or_none_are_no_tokens(root: dict[str, Any], choice: dict[str, Any]) -> None:
    assert tokens_of(root, choice, None) == Tokens(None, None, None, "the engine gave no token ids")


@pytest.mark.parametrize("counted", [0, 1, 3, 100])
def test_usage_that_counts_otherwise_is_a_problem(counted: int) -> None:
    tokens = tokens_of(ROOT, {**IDS, **logprobs(lp(), lp())}, counted)
    assert tokens == Tokens([1, 2], [3, 4], None, f"2 token ids came for {counted} completion tokens")


@given(st.integers(0, 6))
def test_logprobs_that_are_not_one_per_id_are_a_problem(count: int) -> None:
    tokens = tokens_of(ROOT, {**IDS, **logprobs(*[lp()] * count)}, 2)
    assert tokens.logprobs == ([-0.5, -0.5] if count == 2 else None)
    assert (tokens.problem is None) == (count in (0, 2))


def test_entries_that_are_none_keep_their_places() -> None:
    """Left out, three entries would fit two ids, and the second id would have the third's logprob."""
    assert tokens_of(ROOT, {**IDS, **logprobs(lp(), None, lp())}, 2).problem == "3 logprobs came for 2 token ids"
    assert "logprob 1" in (tokens_of(ROOT, {**IDS, **logprobs(lp(), None)}, 2).problem or "")


@pytest.mark.parametrize(
    "wrong", [None, True, "x", "-0.5", [], float("nan"), float("inf"), float("-inf"), 0.5, 1, 1e300]
)
def test_a_logprob_that_is_none_is_a_problem(wrong: Any) -> None:
    tokens = tokens_of(ROOT, {**IDS, **logprobs(lp(), lp(wrong))}, 2)
    assert (tokens.response_ids, tokens.logprobs) == ([3, 4], None)
    assert "logprob 1 is no logarithm of a probability" in (tokens.problem or "")


def test_rounding_above_zero_and_vllms_minus_9999_are_logprobs() -> None:
    assert tokens_of(ROOT, {**IDS, **logprobs(lp(1e-6), lp(-9999.0))}, 2).logprobs == [1e-6, -9999.0]


def test_shifted_logprobs_are_found_where_they_name_their_token() -> None:
    good = logprobs(lp(token="token_id:3"), lp(token="token_id:4"))
    assert tokens_of(ROOT, {**IDS, **good}, 2).problem is None
    shifted = logprobs(lp(token="token_id:4"), lp(token="token_id:3"))
    assert tokens_of(ROOT, {**IDS, **shifted}, 2).problem == "logprob 0 is of token 4, the token id there is 3"
    by_id = logprobs(lp(id=3), lp(id=5))
    assert tokens_of(ROOT, {**IDS, **by_id}, 2).problem == "logprob 1 is of token 5, the token id there is 4"


@pytest.mark.parametrize(
    "token", ["token_id:", "token_id:x", "token_id:-3", "a token_id:7", "token_id:" + "9" * 5000, "", 5, None]
)
def test_a_token_that_is_a_text_names_no_id(token: Any) -> None:
    assert tokens_of(ROOT, {**IDS, **logprobs(lp(token=token), lp())}, 2).problem is None


@pytest.mark.parametrize(
    ("root", "choice", "answer"),
    [
        ({}, {}, (None, None)),
        ({}, {"weight_versions": [{"version": "7", "start": 0, "end": 2}]}, (7, "7")),
        ({"weight_version": 3}, {}, (3, "3")),
        ({"weight_version": "default"}, {}, (None, "default")),
        ({"metadata": {"weight_version": "5"}}, {}, (5, "5")),
        ({"metadata": {"weight_versions": ["5", "6"]}}, {}, (None, "5..6")),
        ({}, {"meta_info": {"weight_version": "5"}}, (5, "5")),
        ({"weight_version": "1"}, {"weight_versions": [{"version": "2"}]}, (2, "2")),
        ({}, {"weight_versions": [{"version": "1"}, {"version": "2"}]}, (None, "1..2")),
        ({}, {"weight_versions": [{"version": "1"}, {"version": "1"}]}, (1, "1")),
        ({}, {"weight_versions": [{"version": "--5"}]}, (None, "--5")),
        ({}, {"weight_versions": [{"version": "-5"}]}, (-5, "-5")),
        ({}, {"weight_versions": [{"version": "9" * 30}]}, (None, "9" * 30)),
        ({}, {"weight_versions": [{"version": "x" * 999}]}, (None, "x" * 120)),
        ({}, {"weight_versions": [{"version": ""}]}, (None, None)),
        ({}, {"weight_versions": [{"version": None}, {}, 5.5, [1]]}, (None, None)),
        ({}, {"weight_versions": 5}, (None, None)),
        ({}, {"weight_versions": {"version": "1"}}, (None, None)),
        ({"weight_version": True, "metadata": []}, {"meta_info": "x"}, (None, None)),
    ],
)
def test_the_policys_version(
    root: dict[str, Any], choice: dict[str, Any], answer: tuple[int | None, str | None]
) -> None:
    assert policy_of(root, choice) == answer


def test_alternatives_are_kept_and_nothing_else_of_logprobs_that_were_taken() -> None:
    none, two = lp(top_logprobs=[]), lp(top_logprobs=[lp(token="a"), lp(token="b")])
    tokens = Tokens([1, 2], [3, 4], [-0.5, -0.5], None)
    for choice in ({**IDS, **logprobs(none, lp())}, {**IDS, **logprobs(lp(top_logprobs=None), 5)}):
        assert left_over(choice, tokens) == {}
    for entries in ((none, two), (two, lp()), (5, two)):
        assert left_over({**IDS, **logprobs(*entries)}, tokens) == logprobs(*entries)
    assert left_over({**IDS, **logprobs(none)}, Tokens([1, 2], [3, 4])) == logprobs(none)
