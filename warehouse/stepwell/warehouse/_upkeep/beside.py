"""What lies beside the tables: announcements, the lease, and what an interrupted process left of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stepwell.errors import StoreError
from stepwell.warehouse._store.flush import FOLDER as INBOX
from stepwell.warehouse._store.flush import Inbox
from stepwell.warehouse._store.lease import FOLDER as LEASE
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._store.s3 import PROBE, is_object_store, place_of, s3_client
from stepwell.warehouse._tables.ledger import Marks

UNFINISHED = 3600.0
"""Seconds after which a file that is still being written, a probe, or a part of an old lease is litter."""

FORGETTING = "_forget"
"""The folder in which a `forget` says what it has set about, until that is done."""

UNREACHED = 2 * 24 * 3600.0
"""Seconds after which an announcement goes that waits for one before it. Its writer, if it comes back, announces both anew."""


@dataclass(frozen=True, slots=True)
class Beside:
    """An object: its key relative to the warehouse, its bytes, and when it was written (seconds since the epoch, by the store's clock)."""

    key: str
    size: int
    at: float


def beside(root: str, storage_options: Mapping[str, str]) -> list[Beside]:
    """Everything in the warehouse's place that is no table, by key.

    Raises:
        StoreError: the store failed.
    """
    try:
        found = _in_bucket(root, storage_options) if is_object_store(root) else _in_folder(Path(root))
        return sorted(found, key=lambda one: one.key)
    except (OSError, BotoCoreError, ClientError) as error:
        raise StoreError(f"the store failed on {root}: {error}") from error


def litter(there: Iterable[Beside], now: float) -> list[Beside]:
    """Which of these objects nobody needs any more, without looking into them."""
    there = list(there)
    term = max((_term(one.key) for one in there), default=0)
    return [one for one in there if now - one.at > UNFINISHED and _is_litter(one.key, term)]


def unreached(
    root: str, storage_options: Mapping[str, str], there: Iterable[Beside], marks: Marks, now: float
) -> list[Beside]:
    """Announcements that have waited for long for records which never came. What cannot be read stays. `marks`: those of `commits`.

    Raises:
        StoreError: the store failed.
    """
    old = {one.key: one for one in there if one.key.startswith(f"{INBOX}/") and now - one.at > UNREACHED}
    flushes = Inbox(objects_at(root, storage_options)).read(old)
    return [
        old[flush.key]
        for flush in flushes
        if any(after > marks.get(producer, 0) for producer, (after, _) in flush.ranges.items())
    ]


def _is_litter(key: str, term: int) -> bool:
    name = key.rpartition("/")[2]
    return (name.startswith(".") and name.endswith(".tmp")) or name.startswith(PROBE) or 0 < _term(key) < term


def _term(key: str) -> int:
    """The lease's term to which an object belongs; 0: to none."""
    number = key.removeprefix(f"{LEASE}/").partition(".")[0]
    return int(number) if key.startswith(f"{LEASE}/") and number.isdigit() else 0


def _in_folder(root: Path) -> Iterator[Beside]:
    for path in root.iterdir():
        for one in (path,) if path.is_file() else () if path.suffix == ".lance" else path.rglob("*"):
            with suppress(FileNotFoundError):  # removed since it was listed
                if one.is_file():
                    said = one.stat()
                    yield Beside(one.relative_to(root).as_posix(), said.st_size, said.st_mtime)


def _in_bucket(root: str, storage_options: Mapping[str, str]) -> Iterator[Beside]:
    bucket, prefix = place_of(root)
    pages: Any = s3_client(storage_options).get_paginator("list_objects_v2")
    folders = [prefix]
    for folder in folders:
        # The delimiter keeps the tables' many files out of the listing.
        for page in pages.paginate(Bucket=bucket, Prefix=folder, Delimiter="/"):
            folders += [
                one["Prefix"] for one in page.get("CommonPrefixes", ()) if not one["Prefix"].endswith(".lance/")
            ]
            for one in page.get("Contents", ()):
                yield Beside(one["Key"][len(prefix) :], one["Size"], one["LastModified"].timestamp())
