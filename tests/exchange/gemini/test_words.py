"""Names in either case, enums by name or by number."""

from __future__ import annotations

import pytest

from stepwell.exchange._gemini.words import block_reason, camel, finish_reason, number, spelled


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("finish_reason", "finishReason"),
        ("finishReason", "finishReason"),
        ("response_json_schema", "responseJsonSchema"),
        ("top_k", "topK"),
        ("text", "text"),
        ("_private", "_private"),
        ("a__b", "a__b"),
        ("", ""),
    ],
)
def test_names_in_camel_case(name: str, wanted: str) -> None:
    assert camel(name) == wanted


def test_fields_have_one_spelling_and_no_nulls() -> None:
    assert spelled({"finish_reason": "STOP", "index": None, "a": {"b_c": None}}) == {
        "finishReason": "STOP",
        "a": {"b_c": None},  # what is inside may be the user's own
    }
    assert spelled({"top_p": 1, "topP": 2}) == {"top_p": 1, "topP": 2}
    assert spelled({"topP": 2, "top_p": 1}) == {"top_p": 1, "topP": 2}
    assert spelled({"top_p": 1, "topP": None}) == {"topP": 1}


@pytest.mark.parametrize(
    ("value", "gemini", "vertex"),
    [
        ("STOP", "STOP", "STOP"),
        ("FAKE_NEW_REASON", "FAKE_NEW_REASON", "FAKE_NEW_REASON"),
        (1, "STOP", "STOP"),
        (2, "MAX_TOKENS", "MAX_TOKENS"),
        (5, "OTHER", "OTHER"),
        (6, "LANGUAGE", "BLOCKLIST"),
        (9, "SPII", "MALFORMED_FUNCTION_CALL"),
        (12, "UNEXPECTED_TOOL_CALL", "IMAGE_PROHIBITED_CONTENT"),
        (99, "99", "99"),
        (-1, "-1", "-1"),
        (0, None, None),
        ("FINISH_REASON_UNSPECIFIED", None, None),
        ("", None, None),
        (None, None, None),
        (True, None, None),
        (["STOP"], None, None),
    ],
)
def test_finish_reasons_by_name_and_by_the_number_of_each_api(
    value: object, gemini: str | None, vertex: str | None
) -> None:
    assert finish_reason(value, vertex=False) == gemini
    assert finish_reason(value, vertex=True) == vertex


def test_block_reasons() -> None:
    assert [block_reason(value) for value in ("SAFETY", 1, 4, 7, 0, "BLOCK_REASON_UNSPECIFIED", None)] == [
        *("SAFETY", "SAFETY", "PROHIBITED_CONTENT", "7", None, None, None),
    ]


def test_integers_may_be_written_as_texts() -> None:
    assert [number(value) for value in (3, "3", "0012", 3.0, True, "x", "", "٣", None)] == [
        *(3, 3, 12, None, None, None, None, None, None),
    ]
