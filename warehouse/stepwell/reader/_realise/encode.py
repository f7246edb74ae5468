"""Text into token ids, and where in the text each id comes from. Nothing is ever fetched."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I32, I64, offsets_of
from stepwell.reader._realise.needs import needed
from stepwell.reader._realise.ranks import encoding_of_model


@dataclass(frozen=True, slots=True)
class Encoded:
    """T tokens."""

    ids: I32
    """[T]"""
    begin: I64
    """[T] The first character of each."""
    end: I64
    """[T] One past the last. Tokens that share a character overlap; `begin == end`: it stands for none of the text."""


class Encoder(Protocol):
    """What turns text into ids, spellings of special tokens into those."""

    @property
    def name(self) -> str:
        """Of the tokenizer, as in `tokenizer:<name>`."""
        ...

    @property
    def identity(self) -> bytes:
        """Equal for tokenizers that give the same ids."""
        ...

    def encode(self, text: str) -> Encoded:
        """The ids of a text, nothing added before or behind."""
        ...


class TokenizersEncoder:
    """A tokenizer of an open model, from its `tokenizer.json`."""

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        """`name`: the tokenizer's, by default that of the folder it lies in.

        Raises:
            InvalidRecord: there is no such file, or it is no tokenizer.
            MissingExtra: the package `tokenizers` is not installed.
        """
        library, file = needed("tokenizers"), Path(path).resolve()
        try:
            data = file.read_bytes()
        except OSError as error:
            raise InvalidRecord("path", f"cannot read the tokenizer: {error}; name a tokenizer.json") from error
        try:
            self._tokenizer = library.Tokenizer.from_buffer(data)
        except ValueError as error:
            raise InvalidRecord("path", f"{file} is no tokenizer.json: {error}") from error
        # A file may say how its model's training cut and filled up texts. A step is never cut.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.name = name or file.parent.name
        self.identity = hashlib.sha256(data).digest()

    def encode(self, text: str) -> Encoded:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        spans = np.asarray(found.offsets, np.int64).reshape(-1, 2)
        return Encoded(np.asarray(found.ids, np.int32), spans[:, 0], spans[:, 1])


class TiktokenEncoder:
    """An encoding of tiktoken: of an OpenAI model by the model's name, or any `tiktoken.Encoding`."""

    def __init__(self, model: str | Any, special_tokens: dict[str, int] | None = None) -> None:
        """
        Args:
            model: A model's name (`gpt-4o`), an encoding's (`o200k_base`), or a `tiktoken.Encoding`.
            special_tokens: Added to those of the encoding; what chat templates delimit messages with is in few of them.

        Raises:
            InvalidRecord: no encoding is known for the model, or its ranks are not on this machine (the error says where they belong).
            MissingExtra: tiktoken is not installed.
        """
        library = needed("tiktoken")
        encoding = encoding_of_model(model) if isinstance(model, str) else model
        if special_tokens:
            encoding = library.Encoding(
                name=encoding.name,
                pat_str=encoding._pat_str,
                mergeable_ranks=encoding._mergeable_ranks,
                special_tokens={**encoding._special_tokens, **special_tokens},
            )
        self._encoding = encoding
        self.name = str(encoding.name)
        self.identity = _digest(encoding)

    def encode(self, text: str) -> Encoded:
        ids = self._encoding.encode(text, allowed_special="all")
        ends = offsets_of(np.fromiter(map(len, self._encoding.decode_tokens_bytes(ids)), np.int64, len(ids)))
        # An id stands for bytes, which may begin and end inside a character: then it is of all of that character.
        first_bytes = (np.frombuffer(text.encode(), np.uint8) & 0xC0) != 0x80
        before = offsets_of(first_bytes)
        begin = before[ends[:-1] + 1] - 1
        return Encoded(np.asarray(ids, np.int32), begin, before[ends[1:]])


def _digest(encoding: Any) -> bytes:
    """Over the pattern, the ranks and the special tokens: all that ids depend on."""
    state = hashlib.sha256(encoding._pat_str.encode())
    for tokens in (encoding._mergeable_ranks, {k.encode(): v for k, v in encoding._special_tokens.items()}):
        state.update(len(tokens).to_bytes(8, "little"))
        for token, rank in sorted(tokens.items(), key=lambda item: item[1]):
            state.update(b"%d %d " % (rank, len(token)) + token)
    return state.digest()
