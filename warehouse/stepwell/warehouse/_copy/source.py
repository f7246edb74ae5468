"""What a copy begins with: which version of each table it takes, and the files that belong to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepwell.errors import StoreError
from stepwell.warehouse._copy.ends import End
from stepwell.warehouse._tables.schema import COMMITS, DATASET_ROWS, DATASETS, FACTS, FORGOTTEN

VERSIONS, TAGS = "_versions", "_refs"
"""The folders of a table that decide what is seen of it."""


@dataclass(slots=True)
class Source:
    """A table of the source as it is to be copied."""

    folder: str
    version: int
    files: dict[str, int] = field(default_factory=dict)
    """Sizes by key, without manifests, tags and what is newer than the version."""
    manifests: dict[int, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)


def look(end: End, uri: str) -> list[Source]:
    """The tables as they are to be copied, in the order in which their manifests are to be written.

    Raises:
        StoreError: there is no warehouse, or the store failed.
    """
    names = end.tables()
    if f"{COMMITS.name}.lance" not in names:
        raise StoreError(f"there is no warehouse at {uri}")
    first = [DATASETS.name, DATASET_ROWS.name]
    last = [COMMITS.name, *(spec.name for spec in reversed(FACTS)), FORGOTTEN.name]
    rest = sorted({name.removesuffix(".lance") for name in names} - {*first, *last})
    order = [f"{name}.lance" for name in (*first, *rest, *last)]
    return [_source(end, uri, name) for name in order if name in names][::-1]


def _source(end: End, uri: str, folder: str) -> Source:
    # The manifests first: what they refer to was written before them, and is then sure to be among the rest.
    manifests = _manifests(end, folder)
    if not manifests:
        raise StoreError(f"{uri}/{folder} has no version")
    table = Source(folder, max(manifests), manifests=manifests)
    for key, size in end.sizes(folder).items():
        part = key.split("/")[1]
        if part == TAGS:
            table.tags.append(key)
        elif part != VERSIONS:
            table.files[key] = size
    return table


def newest(end: End, folder: str) -> int:
    """The newest version of a table; 0 where there is none. Raises StoreError when the store failed."""
    return max(_manifests(end, folder), default=0)


def _manifests(end: End, folder: str) -> dict[int, str]:
    return {number: key for key in end.sizes(f"{folder}/{VERSIONS}") if (number := version_of(key)) is not None}


def version_of(key: str) -> int | None:
    """The version that a manifest is of; None for what is none. Newer ones count down, so that a listing begins with the newest."""
    folder, _, name = key.rpartition("/")
    number, _, kind = name.partition(".")
    if kind != "manifest" or not number.isdigit() or not folder.endswith(VERSIONS):
        return None
    return (1 << 64) - 1 - int(number) if len(number) == 20 else int(number)
