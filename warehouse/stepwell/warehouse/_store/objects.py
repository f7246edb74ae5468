"""Small objects beside the tables: files under a folder, or keys under a prefix of a bucket.

What the table format does not do for us is kept in them: announcements, and who may commit. Only `create` is relied on to exclude
anybody: a conditional write that every store must honour before it is written to (see `s3`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from stepwell.errors import StoreError
from stepwell.warehouse._store.s3 import is_object_store, is_taken, place_of, s3_client

P = ParamSpec("P")
T = TypeVar("T")


class Listed(NamedTuple):
    """An object's key, and a tag that changes whenever it is written."""

    key: str
    tag: str


class Objects(Protocol):
    """Keys are relative, with `/` between their parts. Everything raises StoreError when the store fails."""

    def listed(self, prefix: str) -> list[Listed]:
        """All objects whose key begins with `prefix` (whole parts), in the order of their keys."""
        ...

    def get(self, key: str) -> bytes | None:
        """The object, or None where there is none."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write, over what may be there."""

    def create(self, key: str, data: bytes) -> bool:
        """Write where nothing is. Whether the object now holds `data`: also when an earlier try of ours had got through.

        Raises StoreError, too, when it was there and is not any more: then nobody knows.
        """
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove; what is not there is no error."""


def objects_at(root: str, storage_options: Mapping[str, str]) -> Objects:
    """The objects of the warehouse at `root`."""
    return BucketObjects(root, storage_options) if is_object_store(root) else FolderObjects(Path(root))


class FolderObjects:
    """Objects as files. A reader never sees half of one."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def listed(self, prefix: str) -> list[Listed]:
        return _reached(str(self._root), self._list, prefix)

    def get(self, key: str) -> bytes | None:
        return _reached(key, self._read, key)

    def put(self, key: str, data: bytes) -> None:
        _reached(key, self._written, key, data, os.replace)

    def create(self, key: str, data: bytes) -> bool:
        return _reached(key, self._written, key, data, os.link) or _same(key, self.get(key), data)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            _reached(key, (self._root / key).unlink, missing_ok=True)

    def _read(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self._root / key).read_bytes()
        return None

    def _list(self, prefix: str) -> list[Listed]:
        found = []
        for path in (self._root / prefix).rglob("*"):
            with suppress(FileNotFoundError):  # removed since it was listed
                if path.suffix != ".tmp" and path.is_file():
                    found.append(Listed(path.relative_to(self._root).as_posix(), str(path.stat().st_mtime_ns)))
        return sorted(found)

    def _written(self, key: str, data: bytes, place: Callable[[Path, Path], None]) -> bool:
        """Whether it got its name; not when something had that, and `place` does not write over it."""
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            with fresh.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                place(fresh, path)
            except FileExistsError:
                return False
            return True
        finally:
            fresh.unlink(missing_ok=True)


class BucketObjects:
    """Objects in a bucket."""

    def __init__(self, root: str, storage_options: Mapping[str, str]) -> None:
        self._bucket, self._prefix = place_of(root)
        self._client = s3_client(storage_options)

    def listed(self, prefix: str) -> list[Listed]:
        return _reached(prefix, self._list, prefix)

    def get(self, key: str) -> bytes | None:
        return _reached(key, self._get, key)

    def put(self, key: str, data: bytes) -> None:
        _reached(key, self._put, key, data)

    def create(self, key: str, data: bytes) -> bool:
        return _reached(key, self._put, key, data, IfNoneMatch="*") or _same(key, self.get(key), data)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            _reached(key, self._client.delete_object, Bucket=self._bucket, Key=self._prefix + key)

    def _list(self, prefix: str) -> list[Listed]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{self._prefix}{prefix.rstrip('/')}/"
        )
        start = len(self._prefix)
        return sorted(Listed(item["Key"][start:], item["ETag"]) for page in pages for item in page.get("Contents", ()))

    def _get(self, key: str) -> bytes | None:
        try:
            body: bytes = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"].read()
        except self._client.exceptions.NoSuchKey:
            return None
        return body

    def _put(self, key: str, data: bytes, **condition: str) -> bool:
        try:
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=data, **condition)
        except ClientError as error:
            if condition and is_taken(error):
                return False
            raise
        return True


def _same(key: str, found: bytes | None, data: bytes) -> bool:
    if found is None:
        raise StoreError(f"{key} was written and removed by others in the same moment: try again")
    return found == data


def _reached(what: str, call: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
    """The store's own errors are StoreErrors."""
    try:
        return call(*values, **named)
    except (OSError, BotoCoreError, ClientError, ResponseParserError) as error:
        raise StoreError(f"the store failed on {what}: {error}") from error
