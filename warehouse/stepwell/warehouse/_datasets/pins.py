"""Pins: Lance tags that keep the files of a dataset's tables as they were, against clean-up and compaction.

Nothing that Stepwell reads depends on them: they are for who wants to read the old versions with plain LanceDB, at the price of the disk.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from stepwell.errors import StoreError
from stepwell.warehouse._datasets.registry import Dataset
from stepwell.warehouse._tables.ledger import LedgerTable

_LONGEST = 100

PINNED = ("payloads", "steps", "events")


def tag_of(dataset: Dataset) -> str:
    """The tag's name: letters, digits, `-` and `_`, and no longer than a file's name may be. Any other name gets a part of its hash."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", dataset.name)[:_LONGEST]
    if plain != dataset.name:
        plain += f"-{hashlib.blake2b(dataset.name.encode(), digest_size=4).hexdigest()}"
    return f"stepwell-{plain}-v{dataset.version}"


def is_pin(tag: str) -> bool:
    """Whether a tag may be one of `tag_of`."""
    return re.fullmatch(r"stepwell-[A-Za-z0-9_-]+-v[0-9]+", tag) is not None


def pin(tables: Mapping[str, LedgerTable], dataset: Dataset) -> None:
    """Tag the newest versions of the tables, which have everything that the dataset holds.

    Raises:
        StoreError: the store failed.
    """
    name = tag_of(dataset)
    for table in (tables[name_] for name_ in PINNED):
        table.refresh()
        try:
            if name in table.dataset.tags.list():  # of a creation that did not come to its end
                table.dataset.tags.update(name, table.dataset.version)
            else:
                table.dataset.tags.create(name, table.dataset.version)
        except (OSError, RuntimeError, ValueError) as error:
            raise StoreError(f"cannot tag {table.uri} as {name}: {error}") from error


def unpin(tables: Mapping[str, LedgerTable], dataset: Dataset) -> bool:
    """Remove the tags of a dataset, those that are there; whether there were any.

    Raises:
        StoreError: the store failed.
    """
    name, found = tag_of(dataset), False
    for table in (tables[name_] for name_ in PINNED):
        table.refresh()
        try:
            if name in table.dataset.tags.list():
                table.dataset.tags.delete(name)
                found = True
        except (OSError, RuntimeError, ValueError) as error:
            raise StoreError(f"cannot remove the tag {name} of {table.uri}: {error}") from error
    return found
