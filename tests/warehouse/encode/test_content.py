"""What a content hash depends on, and that it does not depend on the code of the day."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stepwell.sdk.records import Step
from stepwell.warehouse._encode.content import content_hash, hashes_of
from stepwell.warehouse._restore.whole import restore

GIVEN: dict[str, Any] = {
    "prompt_length": 2,
    "tokens": np.array([1, 2, 3], np.int32),
    "logprobs": np.array([-0.5], np.float32),
    "messages": [b'{"role":"user"}', b"{}"],
    "response": b'{"role":"assistant"}',
    "tools": b"null",
}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_the_value_stays() -> None:
    """Datasets of earlier versions hold it: another layout would make them all look changed."""
    assert content_hash(**GIVEN) == "701981c09c35951eabaaa478768df7d8"


def test_every_part_counts() -> None:
    changed: list[dict[str, Any]] = [
        {"prompt_length": 1},
        {"tokens": np.array([1, 2, 4], np.int32)},
        {"tokens": None},
        {"logprobs": np.array([-0.25], np.float32)},
        {"logprobs": None},
        {"messages": [b'{"role":"user"}{}']},
        {"messages": [b'{"role":"user"}', b"{}", b""]},
        {"messages": []},
        {"response": b""},
        {"tools": b"[]"},
        {"messages": [b'{"role":"user"}'], "response": b'{}{"role":"assistant"}'},
    ]
    hashes = {content_hash(**{**GIVEN, **change}) for change in changed}
    assert len(hashes | {content_hash(**GIVEN)}) == len(changed) + 1


def test_layout_does_not_count() -> None:
    wide = {**GIVEN, "tokens": np.array([1, 2, 3], ">i8"), "logprobs": np.array([-0.5], np.float64)}
    assert content_hash(**wide) == content_hash(**GIVEN)


def test_the_same_from_what_is_stored(linked: Callable[[list[Step]], pa.Table]) -> None:
    steps = [
        Step(
            step_id="text",
            messages=[{"role": "user", "content": 'ü"\\ \u2028'}],
            response=says("a"),
            tools=[{"b": 1, "a": 1.0}],
        ),
        Step(step_id="tokens", prompt_ids=[1], response_ids=[], logprobs=[]),
        Step(step_id="empty", prompt_ids=[1], response_ids=[2], messages=[], response={"role": "assistant"}, tools=[]),
    ]
    rows = linked(steps)
    assert hashes_of(restore(rows)) == rows["content_hash"].to_pylist()
    assert len(set(rows["content_hash"].to_pylist())) == 3
