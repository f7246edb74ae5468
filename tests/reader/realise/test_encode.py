"""Ids, and the characters they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwell.errors import InvalidRecord, MissingExtra
from stepwell.reader._realise import needs
from stepwell.reader._realise.encode import Encoder, TiktokenEncoder, TokenizersEncoder

TEXT = "<|im_start|>user\nthe é 漢字 🙂<|im_end|>\n\n"


def test_spans_are_those_of_the_text(encoder: Encoder) -> None:
    found = encoder.encode(TEXT)
    assert len(found.ids) == len(found.begin) == len(found.end)
    covered = np.zeros(len(TEXT), np.bool_)
    for begin, end in zip(found.begin.tolist(), found.end.tolist(), strict=True):
        assert 0 <= begin < end <= len(TEXT)
        covered[begin:end] = True
    assert covered.all()
    assert (np.diff(found.begin) >= 0).all()
    pieces = [TEXT[begin:end] for begin, end in zip(found.begin.tolist(), found.end.tolist(), strict=True)]
    assert pieces[:4] == ["<|im_start|>", "user", "\n", "th"]
    assert pieces[-2:] == ["<|im_end|>", "\n\n"]
    assert pieces.count("🙂") == 4  # one for each of its bytes


def test_nothing_is_added_cut_or_filled_up(encoder: Encoder) -> None:
    assert len(encoder.encode("x" * 50).ids) == 50
    assert len(encoder.encode("x").ids) == 1
    assert len(encoder.encode("").ids) == 0


def test_identity_is_of_all_that_ids_depend_on(tiktoken_encoder: TiktokenEncoder, tokenizer_file: Path) -> None:
    import tiktoken

    ranks = {bytes([value]): value for value in range(256)}

    def identity(**changed: Any) -> bytes:
        given: dict[str, Any] = {"pat_str": r"\w+|\W+", "mergeable_ranks": ranks, "special_tokens": {"<a>": 256}}
        return TiktokenEncoder(tiktoken.Encoding("n", **{**given, **changed})).identity

    swapped = {**ranks, b"a": 98, b"b": 97}
    changes: list[dict[str, Any]] = [
        {},
        {"pat_str": r"\w|\W+"},
        {"mergeable_ranks": swapped},
        {"special_tokens": {"<b>": 256}},
        {"special_tokens": {"<a>": 257}},
    ]
    assert len({identity(**change) for change in changes}) == len(changes)
    assert identity() == identity()
    changed = tokenizer_file.with_name("other.json")
    changed.write_text(tokenizer_file.read_text() + " ")
    assert TokenizersEncoder(changed).identity != TokenizersEncoder(tokenizer_file).identity
    assert TokenizersEncoder(changed).name == tokenizer_file.parent.name


def test_special_tokens_are_added_to_those_of_an_encoding() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([value]): value for value in range(256)}
    bare = tiktoken.Encoding("n", pat_str=r"\w+|\W+", mergeable_ranks=ranks, special_tokens={"<a>": 256})
    assert TiktokenEncoder(bare, {"<b>": 300}).encode("<a><b>").ids.tolist() == [256, 300]
    assert len(TiktokenEncoder(bare).encode("<b>").ids) == 3


def test_what_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(InvalidRecord, match=r"cannot read the tokenizer.*name a tokenizer\.json"):
        TokenizersEncoder(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidRecord, match=r"is no tokenizer\.json"):
        TokenizersEncoder(tmp_path / "tokenizer.json")


def test_a_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(MissingExtra, match=r"stepwell\[tokenizers\]"):
        needs.needed("no_such_package.inside")
