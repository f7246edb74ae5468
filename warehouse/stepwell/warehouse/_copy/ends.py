"""The two ends of a copy: a folder, or a prefix of a bucket, as keys with sizes; and how one file gets from one to the other."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from stepwell.errors import StoreError
from stepwell.warehouse._store.credentials import PROFILE
from stepwell.warehouse._store.s3 import is_object_store, place_of, s3_client

_PART = 16 << 20
_MULTIPART = TransferConfig(multipart_threshold=4 * _PART, multipart_chunksize=_PART, max_concurrency=4)
"""Larger files travel in parts, each of which is tried again by itself."""

_UNFINISHED = ".part"


class Gone(Exception):
    """A file that was listed is not there any more."""


class FolderEnd:
    """Files under a folder. Everything raises StoreError when the disk fails, and reading raises `Gone`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes of each file below `prefix/`, by key."""
        found: dict[str, int] = {}
        with _failing(prefix):
            for path in (self.root / prefix).rglob("*"):
                with suppress(FileNotFoundError):  # removed since it was listed
                    if path.is_file() and not path.name.endswith(_UNFINISHED):
                        found[path.relative_to(self.root).as_posix()] = path.stat().st_size
        return found

    def tables(self) -> list[str]:
        """The folders of tables that there are."""
        with _failing(str(self.root)):
            return sorted(path.name for path in self.root.glob("*.lance"))

    def read(self, key: str) -> bytes:
        """The whole file."""
        with _failing(key):
            return (self.root / key).read_bytes()

    def write(self, key: str, data: bytes) -> None:
        """The whole file, whatever was there."""
        with _failing(key), self.incoming(key) as path:
            path.write_bytes(data)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove; what is not there is no error."""
        for key in keys:
            with _failing(key):
                (self.root / key).unlink(missing_ok=True)

    @contextmanager
    def incoming(self, key: str) -> Iterator[Path]:
        """Where to write a file that appears under its key when it is whole and on the disk."""
        target = self.root / key
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{uuid.uuid4().hex}{_UNFINISHED}")
        try:
            yield scratch
            with scratch.open("rb+") as file:
                os.fsync(file.fileno())
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)


class BucketEnd:
    """Objects under a prefix of a bucket; otherwise as `FolderEnd`."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self.bucket, self.prefix = place_of(uri)
        self.client = s3_client(options, patient=True)
        self.account = (self.client.meta.endpoint_url, options.get(PROFILE), options.get("aws_access_key_id"))
        """One of the same account can be copied from by the store itself."""

    def sizes(self, prefix: str) -> dict[str, int]:
        pages = self.client.get_paginator("list_objects_v2")
        with _failing(prefix):
            listed = pages.paginate(Bucket=self.bucket, Prefix=f"{self.prefix}{prefix}/")
            start = len(self.prefix)
            return {one["Key"][start:]: one["Size"] for page in listed for one in page.get("Contents", ())}

    def tables(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2")
        with _failing(self.bucket):
            listed = pages.paginate(Bucket=self.bucket, Prefix=self.prefix, Delimiter="/")
            folders = (one["Prefix"] for page in listed for one in page.get("CommonPrefixes", ()))
            names = [folder[len(self.prefix) :].rstrip("/") for folder in folders]
        return sorted(name for name in names if name.endswith(".lance"))

    def read(self, key: str) -> bytes:
        with _failing(key):
            body: bytes = self.client.get_object(**self.place(key))["Body"].read()
            return body

    def write(self, key: str, data: bytes) -> None:
        with _failing(key):
            self.client.put_object(**self.place(key), Body=data)

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            with _failing(key):
                self.client.delete_object(**self.place(key))

    def place(self, key: str) -> dict[str, str]:
        """What boto3 wants to know of an object."""
        return {"Bucket": self.bucket, "Key": self.prefix + key}


End = FolderEnd | BucketEnd


def end_at(uri: str, options: Mapping[str, str]) -> End:
    """The end of a copy at `uri`."""
    return BucketEnd(uri, options) if is_object_store(uri) else FolderEnd(Path(uri))


def transfer(source: End, target: End, key: str) -> None:
    """Copy one file; under its key it is whole or not there.

    Raises:
        Gone: the source does not have it any more.
        StoreError: one of the two failed.
    """
    with _failing(key):
        if isinstance(target, FolderEnd):
            with target.incoming(key) as path:
                if isinstance(source, FolderEnd):
                    shutil.copyfile(source.root / key, path)
                else:
                    source.client.download_file(*source.place(key).values(), str(path), Config=_MULTIPART)
        elif isinstance(source, FolderEnd):
            target.client.upload_file(str(source.root / key), *target.place(key).values(), Config=_MULTIPART)
        elif source.account == target.account:
            target.client.copy(source.place(key), *target.place(key).values(), Config=_MULTIPART)
        else:
            body = source.client.get_object(**source.place(key))["Body"]
            target.client.upload_fileobj(body, *target.place(key).values(), Config=_MULTIPART)


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """A file that is not there is `Gone`; every other trouble of disk or store is a StoreError."""
    try:
        yield
    except FileNotFoundError as error:
        raise Gone(what) from error
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in ("404", "NoSuchKey"):
            raise Gone(what) from error
        _give_up(what, error)
    except (OSError, BotoCoreError, Boto3Error) as error:
        _give_up(what, error)


def _give_up(what: str, error: Exception) -> NoReturn:
    raise StoreError(f"the store failed on {what}: {error}") from error
