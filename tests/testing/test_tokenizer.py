from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.testing import ByteTokenizer
from stepwell.testing._tokenizer import SPECIAL_TOKENS

TOKENIZER = ByteTokenizer()
WORDS = [" the", "the", "answer", " tool", "x", " ", "\n", "é", "👋", "<|im_end|>", "<tool_call>", "<", "|", "Answer"]
texts = st.text() | st.lists(st.sampled_from(WORDS)).map("".join)


@given(texts)
def test_decoding_gives_the_text_back(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert all(0 <= token < TOKENIZER.vocab_size for token in ids)


@given(texts, texts)
def test_a_line_break_or_a_special_token_is_always_a_boundary(before: str, after: str) -> None:
    for boundary in ("\n", "<|im_start|>assistant\n"):
        whole = TOKENIZER.encode(before + boundary + after)
        assert whole == TOKENIZER.encode(before + boundary) + TOKENIZER.encode(after)


def test_words_of_the_vocabulary_are_one_token() -> None:
    ids = TOKENIZER.encode("the answer the theatre")
    assert [TOKENIZER.token_texts[token] for token in ids] == ["the", " answer", " the", *" theatre"]


def test_bytes_are_their_own_ids_and_specials_follow() -> None:
    assert TOKENIZER.encode("é!") == [0xC3, 0xA9, ord("!")]
    assert TOKENIZER.encode("".join(SPECIAL_TOKENS)) == list(range(256, 256 + len(SPECIAL_TOKENS)))
    assert TOKENIZER.end_of_turn == TOKENIZER.special_ids["<|im_end|>"]


def test_every_token_encodes_to_itself_and_no_two_share_their_bytes() -> None:
    assert len(set(TOKENIZER.token_bytes)) == TOKENIZER.vocab_size
    for token, data in enumerate(TOKENIZER.token_bytes):
        if token < 128 or token >= 256:
            assert TOKENIZER.encode(data.decode()) == [token]


def test_a_cut_character_shows_as_replaced() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("é")[:1]) == "�"
    assert TOKENIZER.decode_bytes([0xC3]) == b"\xc3"


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        TOKENIZER.encode("\ud800")


def test_the_fingerprint_is_stable() -> None:
    assert ByteTokenizer().fingerprint == TOKENIZER.fingerprint == "byte-4b0c2e72b2da7659"
