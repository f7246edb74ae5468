"""Arguments that come in pieces, each at its JSON path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.exchange._gemini.arguments import PartialArguments, path_of

unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def put_together(*pieces: Any, whole: bool = True) -> str:
    arguments = PartialArguments()
    for piece in pieces:
        arguments.add(piece)
    return arguments.text(whole)


def at(path: str, text: str, more: bool = False) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": text, **({"willContinue": True} if more else {})}


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.id", ["id"]),
        ("$.a.b[0].c", ["a", "b", 0, "c"]),
        ("$['a b'][\"c]\"]", ["a b", "c]"]),
        (r"$['it\'s'].x", ["it's", "x"]),
        ("$.naïve-key.x_1", ["naïve-key", "x_1"]),
        ("$", []),
        ("id", None),
        ("$..a", None),
        ("$[*]", None),
        ("$.a[1", None),
        ("$" + ".a" * 101, None),
        (None, None),
        (5, None),
    ],
)
def test_paths(path: object, steps: list[str | int] | None) -> None:
    assert path_of(path) == steps


def test_every_kind_of_value() -> None:
    text = put_together(
        at("$.city", "Bos", True),
        at("$.city", "ton", True),
        at("$.city", ""),
        {"jsonPath": "$.n", "numberValue": 5},
        {"json_path": "$.half", "number_value": 0.5},
        {"jsonPath": "$.yes", "boolValue": False},
        {"jsonPath": "$.nothing", "nullValue": None},
        {"jsonPath": "$.nothing_either", "nullValue": "NULL_VALUE"},
        at("$.list[0].a", "x"),
        at("$.list[0].b", "y"),
        {"jsonPath": "$.list[1].a", "numberValue": 1},
    )
    assert text == (
        '{"city":"Boston","n":5,"half":0.5,"yes":false,"nothing":null,"nothing_either":null,'
        '"list":[{"a":"x","b":"y"},{"a":1}]}'
    )


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([], ""),
        ([at("$.city", "San Fran", True)], '{"city":"San Fran'),
        ([at("$.city", "")], '{"city":""'),
        ([at("$.a", "x"), at("$.list[0].b", "y", True)], '{"a":"x","list":[{"b":"y'),
        ([at("$.list[0].b", "y")], '{"list":[{"b":"y"'),
        ([{"jsonPath": "$.n[0]", "numberValue": 12}], '{"n":[12'),
        ([at("$.a", "x", True), at("$.b", "y"), at("$.a", "z", True)], '{"a":"xz","b":"y"'),
    ],
)
def test_what_was_cut_is_never_taken_for_whole(pieces: list[Any], text: str) -> None:
    cut = put_together(*pieces, whole=False)
    assert cut == text
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut)


def test_pieces_that_lead_nowhere_are_kept_as_they_came() -> None:
    arguments = PartialArguments()
    odd = [
        *("x", None, {"stringValue": "no path"}, at("$", "root"), at("$.a.b", "in a text"), at("$.a[0]", "in a text")),
        *(at("$.list[7]", "a gap"), {"jsonPath": "$.empty"}, {"jsonPath": "$.n", "numberValue": None}),
        *(at("$.b", "text at a number"), {"jsonPath": "$.list.x", "numberValue": 1}),
    ]
    arguments.add(at("$.a", "text"))
    arguments.add({"jsonPath": "$.b", "numberValue": 1})
    arguments.add(at("$.list[0]", "one"))
    for piece in odd:
        arguments.add(piece)
    assert arguments.odd == odd
    assert arguments.text(True) == '{"a":"text","b":1,"list":["one"]}'


values = st.recursive(
    st.text(max_size=6) | st.integers(-(2**40), 2**40) | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text(max_size=4), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def pieces_of(value: Any, path: str, size: int) -> list[dict[str, Any]]:
    """What a server that streams `value` sends."""
    if isinstance(value, dict):
        quoted = {key: key.replace("\\", "\\\\").replace("'", "\\'") for key in value}
        return [piece for key, inner in value.items() for piece in pieces_of(inner, f"{path}['{quoted[key]}']", size)]
    if isinstance(value, list):
        return [piece for place, inner in enumerate(value) for piece in pieces_of(inner, f"{path}[{place}]", size)]
    if isinstance(value, str):
        texts = [value[start : start + size] for start in range(0, len(value), size)]
        return [*(at(path, text, True) for text in texts), at(path, "")]
    name = "boolValue" if isinstance(value, bool) else "nullValue" if value is None else "numberValue"
    return [{"jsonPath": path, name: value}]


@unhurried
@given(st.dictionaries(st.text(max_size=4), values, max_size=4), st.integers(1, 3))
def test_any_arguments_however_they_are_split(arguments: dict[str, Any], size: int) -> None:
    pieces = pieces_of(arguments, "$", size)
    assert json.loads(put_together(*pieces)) == arguments
    assert list(json.loads(put_together(*pieces))) == list(arguments)
    for cut in range(len(pieces)):
        text = put_together(*pieces[:cut], whole=False)
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
        assert put_together(*pieces).startswith(text)
