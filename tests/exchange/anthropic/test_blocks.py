"""A content block from its deltas."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange._anthropic.blocks import StreamedBlock, delta_field


def block(start: dict[str, Any], *deltas: dict[str, Any], closed: bool = True, stopped: bool = False) -> dict[str, Any]:
    made = StreamedBlock(start, numbered=True)
    for delta in deltas:
        made.add(delta_field(delta)[0], delta)
    made.stopped = stopped
    return made.whole(closed)


def piece(text: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": text}


def test_texts_continue_what_the_start_began() -> None:
    made = block({"type": "text", "text": "a"}, {"type": "text_delta", "text": "b"}, {"type": "text_delta", "text": ""})
    assert made == {"type": "text", "text": "ab"}
    assert block({"type": "text", "text": None}, {"type": "text_delta", "text": "b"})["text"] == "b"
    assert block({"type": "text", "text": "a"}, {"type": "text_delta", "text": None})["text"] == "a"


def test_a_signature_in_pieces_is_put_together() -> None:
    made = block(
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "h"},
        {"type": "thinking_delta", "thinking": "m"},
        *({"type": "signature_delta", "signature": text} for text in ("Er", "UB", "==")),
    )
    assert made == {"type": "thinking", "thinking": "hm", "signature": "ErUB=="}


def test_citations_are_collected() -> None:
    cited = [{"type": "citations_delta", "citation": {"n": number}} for number in (1, 2)]
    assert block({"type": "text", "text": "", "citations": []}, *cited)["citations"] == [{"n": 1}, {"n": 2}]
    assert block({"type": "text", "text": "", "citations": None}, *cited)["citations"] == [{"n": 1}, {"n": 2}]
    assert block({"type": "text", "citations": [{"n": 0}]}, cited[0])["citations"] == [{"n": 0}, {"n": 1}]
    assert block({"type": "text", "text": ""}, {"type": "citations_delta", "citation": None}) == {
        "type": "text",
        "text": "",
    }


def test_the_input_of_a_call_stays_the_text_that_came() -> None:
    start = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    assert block(start, piece(""), piece('{"a": '), piece("1.0}"))["input"] == '{"a": 1.0}'
    assert block(start, piece('{"a": "na'), closed=False)["input"] == '{"a": "na'
    assert block({**start, "input": {"whole": 1}}, piece('{"a":1}'))["input"] == '{"a":1}'


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_no_input_is_an_empty_one_only_when_the_block_has_ended(kind: str) -> None:
    start = {"type": kind, "id": "t", "name": "f", "input": {}}
    assert block(start)["input"] == block(start, piece(""))["input"] == {}
    assert block(start, closed=False)["input"] is block(start, piece(""), closed=False)["input"] is None
    assert block(start, closed=False, stopped=True)["input"] == {}
    assert block({**start, "input": {"a": 1}}, closed=False)["input"] == {"a": 1}


def test_the_input_of_a_server_tool_is_an_object_again() -> None:
    start = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    assert block(start, piece('{"query"'), piece(': "q"}'))["input"] == {"query": "q"}
    assert block(start, piece('{"query"'), closed=False)["input"] == '{"query"'
    assert block(start, piece("5"))["input"] == "5"


def test_a_compaction_keeps_its_text_and_its_opaque_part() -> None:
    made = block(
        {"type": "compaction", "content": None},
        {"type": "compaction_delta", "content": "so ", "encrypted_content": None},
        {"type": "compaction_delta", "content": "far", "encrypted_content": "opaque"},
        {"type": "signature_delta", "signature": "s"},
    )
    assert made == {"type": "compaction", "content": "so far", "encrypted_content": "opaque", "signature": "s"}


def test_deltas_that_nobody_heard_of_are_kept() -> None:
    new = {"type": "new_delta", "x": [1]}
    assert block({"type": "text", "text": "a"}, new, new) == {"type": "text", "text": "a", "deltas": [new, new]}
    counted = {"type": "text_delta", "text": "b", "tokens": 2}
    assert block({"type": "text", "text": "a"}, counted) == {"type": "text", "text": "ab", "tokens": 2}


@pytest.mark.parametrize(
    ("delta", "field", "kind"),
    [
        ({"type": "text_delta", "text": "a"}, "text", "text"),
        ({"type": "signature_delta", "signature": "a"}, "signature", "thinking"),
        ({"type": "input_json_delta", "partial_json": "a"}, "input", "tool_use"),
        ({"text": "a"}, "text", "text"),
        ({"thinking": "a"}, "thinking", "thinking"),
        ({"partial_json": "a"}, "input", "tool_use"),
        ({"type": "new_delta"}, "deltas", "new"),
        ({}, "deltas", "unknown"),
        ({"type": 5, "x": 1}, "deltas", "unknown"),
    ],
)
def test_what_a_delta_continues(delta: dict[str, Any], field: str, kind: str) -> None:
    assert delta_field(delta) == (field, kind)
    assert StreamedBlock({"type": kind}, numbered=True).takes(field)


def test_a_block_refuses_what_another_type_is_made_of() -> None:
    assert not StreamedBlock({"type": "text"}, numbered=True).takes("thinking")
    assert not StreamedBlock({"type": "thinking"}, numbered=True).takes("text")
    assert not StreamedBlock({"type": "tool_use"}, numbered=True).takes("text")
    assert StreamedBlock({"type": "text"}, numbered=True).takes("signature")
    assert all(StreamedBlock({"type": kind}, numbered=True).takes("text") for kind in ("new", 5, None))


@pytest.mark.parametrize(
    "delta",
    [
        {"type": "text_delta", "text": 5},
        {"type": "input_json_delta", "partial_json": {}},
        {"type": "signature_delta", "signature": []},
    ],
)
def test_a_delta_without_its_text_is_refused(delta: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no text"):
        block({"type": "text", "text": ""}, delta)


@pytest.mark.parametrize(
    ("start", "model"),
    [
        ({"type": "fallback", "to": {"model": "b"}}, "b"),
        ({"type": "fallback", "to": {"model": 5}}, None),
        ({"type": "fallback", "to": 5}, None),
        ({"type": "text", "to": {"model": "b"}}, None),
    ],
)
def test_a_fallback_names_the_model_that_took_over(start: dict[str, Any], model: str | None) -> None:
    assert StreamedBlock(start, numbered=True).serving_model == model
