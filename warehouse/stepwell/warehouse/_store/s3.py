"""Object stores: can the bucket be reached, and does it keep its word.

Lance's commits rely on conditional writes. A store that ignores `If-None-Match` loses commits silently, so it is tried once,
before anything is written, and refused when it fails.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepwell.errors import StoreError
from stepwell.warehouse._store.credentials import session_of
from stepwell.warehouse._tables.renewed import Renewed

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")

PROBE = ".stepwell-probe-"
"""How the object begins with which a bucket is tried out."""


def is_object_store(uri: str) -> bool:
    """Whether the URI names a bucket rather than a folder."""
    return uri.startswith("s3://")


def place_of(uri: str) -> tuple[str, str]:
    """The bucket of an `s3://` URI, and what the keys of everything in its place begin with."""
    parts = urlsplit(uri)
    return parts.netloc, f"{parts.path.strip('/')}/".lstrip("/")


def is_taken(error: ClientError) -> bool:
    """Whether a conditional write was refused because something is there."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (409, 412)


def check_store(uri: str, storage_options: Mapping[str, str], *, write: bool = True) -> None:
    """Answers within seconds whether the bucket behind `uri` can be used; with `write`, also whether it can be written to.

    Raises:
        StoreError: it cannot be reached, refuses the credentials, does not exist, or ignores conditional writes.
    """
    bucket, prefix = place_of(uri)
    client = s3_client(storage_options)
    key = f"{prefix}{PROBE}{uuid.uuid4().hex}"
    try:
        client.head_bucket(Bucket=bucket)
        honoured = not write or _honours_conditions(client, bucket, key)
    except (BotoCoreError, ClientError) as error:
        where = storage_options.get("aws_endpoint", "the default endpoint")
        raise StoreError(f"cannot use the bucket {bucket!r} at {where}: {error}") from error
    if not honoured:
        raise StoreError(
            f"the store of {uri} ignores If-None-Match: two commits at once would lose data; it is not written to"
        )


def _honours_conditions(client: Any, bucket: str, key: str) -> bool:
    client.put_object(Bucket=bucket, Key=key, Body=b"", IfNoneMatch="*")
    honoured = _second_put_is_refused(client, bucket, key)
    client.delete_object(Bucket=bucket, Key=key)
    return honoured


def _second_put_is_refused(client: Any, bucket: str, key: str) -> bool:
    try:
        client.put_object(Bucket=bucket, Key=key, Body=b"", IfNoneMatch="*")
    except ClientError as error:
        if is_taken(error):
            return True
        raise
    return False


def s3_client(options: Mapping[str, str], *, patient: bool = False) -> Any:
    """A boto3 client that sees what Lance sees; what the options leave open comes from the usual AWS environment.

    `patient`: for moving much data, not for a quick answer.

    Raises:
        StoreError: the options name a profile that is not there.
    """
    renewed = isinstance(options, Renewed)  # then boto3 renews its keys, too, and is to have none from here
    session = options.session if isinstance(options, Renewed) else session_of(options)
    virtual = options.get("aws_virtual_hosted_style_request") == "true"
    how: dict[str, Any] = {"connect_timeout": 3, "read_timeout": 10, "retries": {"max_attempts": 2}}
    if patient:
        how = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 8}, "max_pool_connections": 64}
    if options.get("aws_endpoint"):
        how["s3"] = {"addressing_style": "virtual" if virtual else "path"}
    return session.client(
        "s3",
        endpoint_url=options.get("aws_endpoint"),
        region_name=options.get("aws_region") or session.region_name or "us-east-1",
        **{name: None if renewed else options.get(name) for name in _KEYS},
        config=Config(**how),
    )
