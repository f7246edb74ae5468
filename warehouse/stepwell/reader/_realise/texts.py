"""What single token ids say, for showing them: by tokenizers that are on this machine. Nothing is ever fetched."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stepwell.errors import InvalidRecord, MissingExtra
from stepwell.reader._realise.needs import needed
from stepwell.reader._realise.ranks import encoding_of_model

_Says = Callable[[int], str]

_TOKENIZER = "tokenizer:"
_REMEMBERED = 8
"""Tokenizers; a large one takes a hundred megabytes."""


class TokenTexts:
    """Finds a tokenizer by the names of steps, and remembers the last few. Any thread. One that is put there later is found then.

    A tokenizer is looked for in a folder of one's own, as `<name>.json` with `--` for `/`: a model's `tokenizer.json`, or a JSON list of
    what each id says; then in the cache of the Hugging Face hub. Ids that were derived with tiktoken are told by its own files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Says] = OrderedDict()

    def of(
        self, ids: Sequence[int], *, source: str | None, fingerprint: str | None, model: str | None
    ) -> list[str] | None:
        """The text of each id by itself; part of a character is U+FFFD. None where no tokenizer for a step of these is here."""
        derived = source.removeprefix(_TOKENIZER) if source is not None and source.startswith(_TOKENIZER) else None
        names = [derived] if derived else [fingerprint, (fingerprint or "").partition(":")[2], model]
        with self._lock:
            says = self._found(derived, list(dict.fromkeys(name for name in names if name)))
        if says is None:
            return None
        texts = {id_: says(id_) for id_ in set(ids)}
        return [texts[id_] for id_ in ids]

    def _found(self, derived: str | None, names: Sequence[str]) -> _Says | None:
        for file in (one for name in names for one in self._files(name)):
            try:
                if (says := self._remembered(str(file), partial(_of_file, file))) is not None:
                    return says
            except (OSError, ValueError, InvalidRecord, MissingExtra):  # a file that is none: another one may be
                continue
        if derived is None:
            return None
        try:
            return self._remembered(_TOKENIZER + derived, lambda: _of_tiktoken(encoding_of_model(derived)))
        except (InvalidRecord, MissingExtra):
            return None

    def _remembered(self, name: str, make: Callable[[], _Says | None]) -> _Says | None:
        says = self._known.pop(name, None) or make()
        if says is not None:
            self._known[name] = says
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return says

    def _files(self, name: str) -> Iterator[Path]:
        plain = name.replace("/", "--")
        if self._folder is not None and not plain.startswith("."):
            yield self._folder / f"{plain}.json"
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
            home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
            hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
            yield from sorted(hub.glob(f"models--{plain}/snapshots/*/tokenizer.json"))


def _of_file(file: Path) -> _Says | None:
    if not file.is_file():
        return None
    said = json.loads(file.read_bytes())
    if isinstance(said, list):
        texts = [str(text) for text in said]
        return lambda id_: texts[id_] if 0 <= id_ < len(texts) else "\ufffd"
    tokenizer = needed("tokenizers").Tokenizer.from_buffer(file.read_bytes())
    return lambda id_: str(tokenizer.decode([id_], skip_special_tokens=False))


def _of_tiktoken(encoding: Any) -> _Says:
    def says(id_: int) -> str:
        try:
            return str(encoding.decode_single_token_bytes(id_).decode(errors="replace"))
        except KeyError:
            return "\ufffd"

    return says
