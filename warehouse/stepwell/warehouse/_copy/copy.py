"""Copying a warehouse from one store to another, while it is written, again and again, from where the last time ended.

The files of a table never change once they are written, so a file that is there with its size is copied already. What a reader of
the copy sees is decided by the manifests, which come last: the tables' in the order in which a commit writes them, each one's by number.
Which versions are copied is looked up first, in the opposite order, so that no row refers to one that is not in the copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import orjson

from stepwell.errors import StoreError
from stepwell.warehouse._copy.ends import End, Gone, end_at, transfer
from stepwell.warehouse._copy.source import TAGS, VERSIONS, Source, look, newest, version_of
from stepwell.warehouse._store.lease import PATIENCE, sign_of_life
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._store.s3 import check_store, is_object_store
from stepwell.warehouse._tables.schema import FORGOTTEN

MARKER = "_copy.json"
"""Says of a place what `Said` tells."""

_HINT = "latest_version_hint.json"
"""Where Lance may look first for the newest version: not copied, it then looks at all."""

_ATTEMPTS = 5
_AT_ONCE = 16

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy came to. `files` and `bytes` were moved; `there` files were in the destination already; `removed` are there no more."""

    files: int
    bytes: int
    there: int
    removed: int
    versions: Mapping[str, int]
    """By table, the newest version copied."""


class Said(NamedTuple):
    """What a destination says of itself."""

    source: str
    """Of what it is a copy."""
    versions: Mapping[str, int]
    """Up to which version of each table."""
    pruned: int | None
    """As of which version of `forgotten` it had nothing that the source did not have; None where that was never so."""


class Copy:
    """One source and one destination, each a folder or `s3://bucket/prefix` with its storage options."""

    def __init__(
        self,
        source: tuple[str, Mapping[str, str]],
        target: tuple[str, Mapping[str, str]],
        *,
        prune: bool = False,
        patience: float = PATIENCE,
        say: Say = lambda _: None,
    ) -> None:
        """`prune`: remove from the destination what the source does not have any more, as is done anyhow after a `forget`.

        `patience`: seconds without a sign of life after which who held the destination is taken for gone.
        """
        self._source_uri, self._target_uri = (uri.rstrip("/") for uri, _ in (source, target))
        if self._source_uri == self._target_uri and source[1] == target[1]:
            raise StoreError(f"{self._source_uri} cannot be copied onto itself")
        self._options, self._prune, self._patience, self._say = target[1], prune, patience, say
        for (uri, options), write in ((source, False), (target, True)):
            if is_object_store(uri):
                check_store(uri, options, write=write)
        self._source: End = end_at(*source)
        self._target: End = end_at(*target)
        self._moved = [0, 0]

    def run(self) -> Copied:
        """Copy what is missing.

        Raises:
            StoreError: a store failed (run it again: what is copied stays); the source is no warehouse; the destination is written by
                an ingest, or is another warehouse and no copy of this one.
        """
        self._refuse_a_writer()
        for _ in range(_ATTEMPTS):
            try:
                return self._copy()
            except Gone as gone:  # compacted and cleaned up at the source since it was listed
                self._say(f"{gone} is not in the source any more; looking again")
        raise StoreError(f"{self._source_uri} changes faster than it can be copied: {_ATTEMPTS} attempts")

    def _copy(self) -> Copied:
        # Before the rest: what goes while it is looked at is for the next copy.
        forgotten = newest(self._source, f"{FORGOTTEN.name}.lance")
        tables = look(self._source, self._source_uri)
        there = {table.folder: self._target.sizes(table.folder) for table in tables}
        versions = {table.folder.removesuffix(".lance"): table.version for table in tables}
        said = self._said()
        self._refuse_another(said, tables, there)
        pruned = None if said is None else said.pruned
        self._say_what(versions, pruned)
        missing = [key for table in tables for key, size in table.files.items() if there[table.folder].get(key) != size]
        self._move(missing, {key: size for table in tables for key, size in table.files.items()})
        self._verify(tables)
        for table in tables:
            self._publish(table, there[table.folder])
        removed = 0
        if self._prune or pruned != forgotten:  # until a copy has come through here: they may be interrupted
            removed = self._remove_others(tables)
            self._say_what(versions, forgotten)
        had = sum(len(table.files) for table in tables) - len(missing)
        return Copied(self._moved[0], self._moved[1], had, removed, versions)

    def _say_what(self, versions: Mapping[str, int], pruned: int | None) -> None:
        said = {"source": self._source_uri, "versions": versions, "pruned": pruned, "at": time.time()}
        self._target.write(MARKER, orjson.dumps(said))

    def _move(self, keys: Iterable[str], sizes: Mapping[str, int]) -> None:
        wanted = list(keys)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            done = pool.map(partial(transfer, self._source, self._target), wanted)
            for count, (key, _) in enumerate(zip(wanted, done, strict=True), 1):
                self._moved = [self._moved[0] + 1, self._moved[1] + sizes.get(key, 0)]
                if count % 1000 == 0:
                    self._say(f"{count} of {len(wanted)} files")

    def _verify(self, tables: Iterable[Source]) -> None:
        for table in tables:
            there = self._target.sizes(table.folder)
            wrong = [key for key, size in table.files.items() if there.get(key) != size]
            if wrong:
                raise StoreError(
                    f"{wrong[0]} has {there.get(wrong[0])} bytes in {self._target_uri}, not {table.files[wrong[0]]}: copy again"
                )

    def _publish(self, table: Source, there: Mapping[str, int]) -> None:
        """Make the versions visible, the newest last."""
        self._target.remove([f"{table.folder}/{VERSIONS}/{_HINT}"])
        for number, key in sorted(table.manifests.items()):
            if key in there:
                continue
            try:
                self._move([key], {})
            except Gone:
                if number == table.version:
                    raise
        self._target.remove(key for key in there if key.split("/")[1] == TAGS and key not in table.tags)
        self._move(table.tags, {})

    def _remove_others(self, tables: Iterable[Source]) -> int:
        removed = 0
        for table in tables:
            kept = {*table.files, *table.manifests.values(), *table.tags}
            others = sorted(
                key for key in self._target.sizes(table.folder) if key not in kept
            )  # `_tables/versions` before `data`
            self._target.remove(others)
            removed += len(others)
        return removed

    def _refuse_a_writer(self) -> None:
        """Raises StoreError when an ingest commits to the destination."""
        objects = objects_at(self._target_uri, self._options)
        before = sign_of_life(objects)
        if before is None:
            return
        time.sleep(self._patience)
        if sign_of_life(objects) not in (None, before):
            raise StoreError(f"an ingest writes to {self._target_uri}: stop it, or copy somewhere else")

    def _refuse_another(
        self, said: Said | None, tables: Iterable[Source], there: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Raises StoreError unless the destination is empty or an earlier state of the source."""
        others = [name for name in self._target.tables() if there.get(name) or name not in there]
        if not others:
            return
        if said is None:
            raise StoreError(f"{self._target_uri} holds a warehouse that is no copy: copy to an empty place")
        for table in tables:
            has = {number: key for key in there[table.folder] if (number := version_of(key)) is not None}
            last = max(has, default=0)
            upto = min(said.versions.get(table.folder.removesuffix(".lance"), 0), table.version)
            both = max(has.keys() & table.manifests.keys(), default=None)
            other = said.source != self._source_uri if both is None else self._differ(table.manifests[both])
            if last > upto or (last and other):
                raise StoreError(
                    f"{self._target_uri}/{table.folder} was written by somebody else since it was copied, or is a copy of another "
                    "warehouse: copy to an empty place"
                )

    def _differ(self, key: str) -> bool:
        return self._source.read(key) != self._target.read(key)

    def _said(self) -> Said | None:
        """None when it says nothing."""
        try:
            said = orjson.loads(self._target.read(MARKER))
            return Said(str(said["source"]), dict(said["versions"]), said.get("pruned"))
        except Gone:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._target_uri}/{MARKER} cannot be read: {error}") from error
