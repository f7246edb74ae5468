"""Keys of conversations that are read back: the same as when they came, in time linear in what is new."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange.canonical import Message, compared
from stepwell.warehouse._parse import rest as rest_module
from stepwell.warehouse._parse.keys import keys_of
from stepwell.warehouse._parse.rest import Rest


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}] if text else []}


ANSWER = message("assistant", "a")
talks = st.lists(
    st.builds(message, st.sampled_from(["system", "developer", "user", "assistant"]), st.sampled_from(["a", "b"])),
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(talks, max_size=6))
def test_stored_conversations_give_the_same_keys_again(several: list[list[dict[str, Any]]]) -> None:
    """Whatever came before, of which they may repeat some."""
    rest = Rest()
    for talk in several:
        stored = [orjson.dumps(said) for said in (*talk, ANSWER)]
        for model in ("m", "n"):
            assert rest.key(stored, model) == keys_of(talk, ANSWER, model).rest_conversation


@pytest.mark.parametrize("case", ["plain", "another system prompt each time", "two in turn", "rewritten"])
def test_long_conversations_are_looked_at_once(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand turns would otherwise be a million messages."""
    looked: list[Message] = []

    def counted(said: Message) -> bytes:
        looked.append(said)
        return compared(said)

    turns, rest = 60, Rest()
    talks: list[list[Message]] = [[], []]
    made: list[tuple[list[Message], str | None]] = []
    monkeypatch.setattr(rest_module, "compared", counted)
    for turn in range(turns):
        talk = talks[turn % 2 if case == "two in turn" else 0]
        if case == "rewritten" and turn == turns // 2:
            talk[-3:] = []
        talk += [message("user", f"{turn}"), message("assistant", f"a{turn}")]
        system = message("system", f"now it is {turn}" if "another" in case else "you are")
        made.append(([system, *talk], rest.key([orjson.dumps(said) for said in (system, *talk)], "m")))
    assert len(looked) <= 2 * turns + 4
    for said, key in made:
        assert key == keys_of(said[:-1], said[-1], "m").rest_conversation
