"""What a row holds of a step's texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from stepwell.sdk.records import Step
from stepwell.warehouse._link.link import Linked

Place = Callable[[list[Step]], list[Linked]]
LARGE = "long " * 1000


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def test_the_row_names_what_its_own_texts_refer_to(placed: Place) -> None:
    first = [said("system", LARGE), said("user", LARGE)]
    answer = said("assistant", LARGE + "!")
    tools = [{"name": LARGE}]
    steps = [
        Step(step_id="a", trajectory_id="t", messages=first, response=answer, tools=tools),
        Step(
            step_id="b",
            trajectory_id="t",
            messages=[*first, answer, said("user", "q")],
            response=said("assistant", "a"),
            tools=tools,
        ),
    ]
    one, two = (item.texts for item in placed(steps))
    assert one.payload_ids is not None
    assert len(one.payload_ids) == 3, "the same part of two messages is one payload"
    assert len(one.payloads) == 4
    assert one.messages is not None
    assert all(f'"@{id_}"' in one.messages + (one.response or "") + (one.tools or "") for id_ in one.payload_ids)
    assert max(len(text or "") for text in (one.messages, one.response, one.tools)) < 300
    assert (two.payload_ids, two.tools) == (None, None), "what stands in the base is none of its own"
    assert len(orjson.loads(two.messages or "")) == 1


def test_what_is_not_there(placed: Place) -> None:
    [item] = placed([Step(step_id="a", prompt_ids=[1], response_ids=[2])])
    assert (item.texts.messages, item.texts.response, item.texts.tools, item.texts.payload_ids) == (None,) * 4
