"""A prompt that goes on from a known one comes to what it would come to without."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange.canonical import canonical_messages
from stepwell.warehouse._parse import histories as histories_module
from stepwell.warehouse._parse.histories import Histories, Told
from stepwell.warehouse._parse.keys import begun

TALK = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": "a"},
    {"role": "user", "content": "r"},
]


def text_of(messages: list[Any]) -> bytes:
    return orjson.dumps(messages)


def plainly(messages: list[Any], model: str | None = None) -> tuple[tuple[bytes, ...], Any]:
    own = canonical_messages(messages)
    return tuple(map(orjson.dumps, own)), begun(own, model)


def what(told: Told) -> tuple[tuple[bytes, ...], Any]:
    return told.messages, told.begun


MESSAGE = st.builds(
    lambda role, text: {"role": role, "content": text},
    st.sampled_from(["system", "user", "assistant", "developer"]),
    st.sampled_from(["", "a", "]", ",", "é", '"', "x]"]),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.lists(MESSAGE, max_size=3), st.integers(0, 4), st.booleans(), st.sampled_from([None, "m"])))
)
def test_as_if_nothing_were_remembered(turns: list[tuple[list[Any], int, bool, str | None]]) -> None:
    read, told = Histories(4000), Histories(4000)
    talk: list[Any] = []
    for more, start, indented, model in turns:
        talk = [*talk[1 if start == 0 else 0 :], *more]
        text = orjson.dumps(talk, option=orjson.OPT_INDENT_2 if indented else None) + b" \n" * indented
        assert what(read.read("t", text, model)) == plainly(talk, model)
        assert what(told.told("t", canonical_messages(talk), model)) == plainly(talk, model)
        assert what(told.told(None, canonical_messages(talk), model)) == plainly(talk, model)


def test_only_what_is_new_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def look(said: list[Any]) -> Any:
        looked.append(len(said))
        return write(said)

    write = histories_module._written
    monkeypatch.setattr(histories_module, "_written", look)
    histories = Histories()
    for length in (2, 3, 4, 4):
        histories.read("t", text_of(TALK[:length]), None)
    assert looked == [2, 1, 1]
    first = histories.read("t", text_of(TALK[:4]), None).messages[0]
    more = [*TALK, *TALK]
    assert histories.read("t", text_of(more), None).messages[0] is first, "held once"
    histories.read("t", text_of(more), "another model")
    assert looked[-1] == 8


def test_a_sub_agent_between_two_turns_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    histories, other = Histories(), [{"role": "user", "content": "sub"}]
    histories.read("t", text_of(TALK[:3]), None)
    histories.read("t", text_of(other), None)
    monkeypatch.setattr(histories_module, "begun", None)
    assert what(histories.read("t", text_of(TALK), None)) == plainly(TALK)


@pytest.mark.parametrize("text", [b"", b"[", b"{}", b"[1]", b'["a"]', b'[{"role":"user","content":"q"},]', b"[{}]x"])
def test_what_is_no_list_of_messages_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        Histories().read("t", text, None)


@pytest.mark.parametrize("end", [b",]", b",", b"", b"]]", b",1]", b"}", b", {}]", b'x{"role":"user"}]'])
def test_what_goes_on_in_the_wrong_way_is_an_error(end: bytes) -> None:
    histories = Histories()
    histories.read("t", text_of(TALK[:2]), None)
    with pytest.raises(ValueError):
        histories.read("t", text_of(TALK[:2])[:-1] + end, None)


def test_the_least_recently_used_is_forgotten() -> None:
    histories = Histories(20_000)
    for number in range(50):
        histories.read(number, text_of(TALK), None)
    assert 0 < len(histories) < 15
    assert what(histories.read(0, text_of(TALK), None)) == plainly(TALK)
