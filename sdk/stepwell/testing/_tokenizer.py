"""A small real tokenizer: UTF-8 bytes, special tokens, and a fixed vocabulary of common words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    "<|image_pad|>",
    "<|audio_pad|>",
)

_WORDS = (
    "the be to of and in that have it for not on with he as you do at this but his by from they we say her she or an will"
    " my one all would there their what so up out if about who get which go me when make can like time no just him know"
    " take people into year your good some could them see other than then now look only come its over think also back"
    " after use two how our work first well way even new want because any these give day most us is are was were been has"
    " had did let need must may should each both much many more less very here where why yes ok system user assistant tool"
    " tools name arguments type function description parameters object string number properties required content call"
    " calls answer question result value values price total sum number count step check result error json true false null"
    " expression calculator lookup key model task text line code file data list item items example return following"
)

# A piece is a run of ASCII letters with at most one space before it, or any other single byte. No piece spans a line
# break, so text that follows one is cut alike whatever came before: that keeps turns an exact append of each other.
_PIECE = re.compile(rb" ?[A-Za-z]+|[^A-Za-z]")


class ByteTokenizer:
    """Byte-level tokenizer: `decode(encode(text)) == text` for every text that has a UTF-8 form.

    Ids 0-255 are the bytes, then come the special tokens, then common words with and without a leading space. A word in
    the vocabulary is one token; everything else is one token for each byte. Special tokens are recognised in text, as the
    tokenizers of chat models do.
    """

    def __init__(self) -> None:
        words = [word.encode() for word in dict.fromkeys(_WORDS.split())]
        merges = [form for word in words for form in (word, b" " + word)]
        self.token_bytes: list[bytes] = [bytes([value]) for value in range(256)]
        self.token_bytes += [token.encode() for token in SPECIAL_TOKENS] + merges
        self.token_texts: list[str] = [token.decode(errors="replace") for token in self.token_bytes]
        """The text of each token by itself; part of a character shows as U+FFFD."""
        self.special_ids: dict[str, int] = {token: 256 + i for i, token in enumerate(SPECIAL_TOKENS)}
        self.end_of_turn: int = self.special_ids["<|im_end|>"]
        first = 256 + len(SPECIAL_TOKENS)
        self._merges = {piece: first + i for i, piece in enumerate(merges)}
        self._specials = re.compile("(" + "|".join(map(re.escape, SPECIAL_TOKENS)) + ")")

    @property
    def vocab_size(self) -> int:
        return len(self.token_bytes)

    @property
    def fingerprint(self) -> str:
        """Hash of the vocabulary, to tell its ids from another tokenizer's."""
        return "byte-" + hashlib.sha256(b"\x00".join(self.token_bytes)).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """Token ids of a text.

        Raises `UnicodeEncodeError` for a lone surrogate, which no UTF-8 can hold.
        """
        ids: list[int] = []
        for position, part in enumerate(self._specials.split(text)):
            if position % 2:
                ids.append(self.special_ids[part])
            elif part:
                self._encode_plain(part.encode(), ids)
        return ids

    def _encode_plain(self, data: bytes, ids: list[int]) -> None:
        merges = self._merges
        for piece in _PIECE.findall(data):
            merged = merges.get(piece)
            if merged is None:
                ids.extend(piece)
            else:
                ids.append(merged)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of some ids, special tokens included; a cut character stays cut."""
        table = self.token_bytes
        return b"".join([table[token] for token in ids])

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, special tokens included; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode(errors="replace")
