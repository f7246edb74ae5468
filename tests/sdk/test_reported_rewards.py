"""A reward is a finite number or absent: the SDK refuses whatever else a program hands it, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stepwell import sdk
from stepwell.errors import InvalidRecord

TOKENS: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2]}
BAD = [float("nan"), float("inf"), -float("inf"), np.float32("nan"), "", "1", b"1", True, False, np.True_, [1.0], {}]


@pytest.mark.parametrize("reward", BAD, ids=repr)
def test_what_is_no_number_is_refused_everywhere(gateway: Any, client: sdk.Client, reward: Any) -> None:
    with client.trajectory() as trajectory:
        attempts: tuple[Callable[[], object], ...] = (
            lambda: client.submit_step(**TOKENS, reward=reward),
            lambda: client.submit_feedback(step="s", reward=reward),
            lambda: trajectory.submit_step(**TOKENS, reward=reward),
            lambda: trajectory.reward(reward),
        )
        for submit in attempts:
            with pytest.raises(InvalidRecord) as caught:
                submit()
            assert caught.value.field == "reward"
    client.flush()
    assert gateway.bodies("step") == gateway.bodies("feedback") == []


@pytest.mark.parametrize("reward", [1, -0.5, np.float32(0.5), np.int64(2), np.array(0.25)], ids=repr)
def test_numbers_of_every_library_are_numbers(gateway: Any, client: sdk.Client, reward: Any) -> None:
    client.submit_step(**TOKENS, reward=reward)
    client.submit_feedback(step="s", reward=reward)
    client.flush()
    assert [body["reward"] for kind in ("step", "feedback") for body in gateway.bodies(kind)] == [float(reward)] * 2


def test_none_is_no_reward(gateway: Any, client: sdk.Client) -> None:
    client.submit_step(**TOKENS, reward=None)
    with pytest.raises(InvalidRecord, match="says nothing"):
        client.submit_feedback(step="s", reward=None)
    client.flush()
    assert "reward" not in gateway.bodies("step")[0]
