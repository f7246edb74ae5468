"""tiktoken's encodings by a model's name, from files that are on this machine. tiktoken would fetch what is not."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepwell.errors import InvalidRecord
from stepwell.reader._realise.needs import needed

_LOCK = threading.Lock()


class _NotHere(Exception):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


def encoding_of_model(name: str) -> Any:
    """The `tiktoken.Encoding` of a model, or of that name.

    Raises:
        InvalidRecord: tiktoken knows no such model or encoding; its file is not here, or damaged.
        MissingExtra: tiktoken is not installed.
    """
    tiktoken = needed("tiktoken")
    encoding = name
    if name not in tiktoken.list_encoding_names():
        try:
            encoding = tiktoken.encoding_name_for_model(name)
        except KeyError as error:
            known = ", ".join(sorted(tiktoken.list_encoding_names()))
            why = f"tiktoken {tiktoken.__version__} knows no encoding for {name!r}"
            raise InvalidRecord("model", f"{why}; name one of {known}, or give a tiktoken.Encoding") from error
    try:
        with _offline():
            return tiktoken.get_encoding(encoding)
    except _NotHere as missing:
        raise InvalidRecord("model", _what_to_do(encoding, missing.address)) from None


@contextmanager
def _offline() -> Iterator[None]:
    """tiktoken has no switch for it: what reads files and addresses alike is replaced while an encoding is made."""
    load = needed("tiktoken.load")
    with _LOCK:
        before = load.read_file

        def read_file(blobpath: str) -> bytes:
            if "://" in blobpath:
                raise _NotHere(blobpath)
            return bytes(before(blobpath))

        load.read_file = read_file
        try:
            yield
        finally:
            load.read_file = before


def _what_to_do(encoding: str, address: str) -> str:
    """tiktoken looks for a file by the SHA-1 of the address it would fetch it from."""
    named = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    folder = Path(named or Path(tempfile.gettempdir()) / "data-gym-cache")
    file = folder / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
    set_it = "" if named else ", or to that name in a folder that TIKTOKEN_CACHE_DIR names"
    return (
        f"the ranks of the encoding {encoding} are not on this machine (or damaged), and are not fetched; "
        f"put what {address} gives to {file}{set_it}"
    )
