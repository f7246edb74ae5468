"""Who we are to an object store: found as boto3 finds it, and said to Lance in its words.

Variables, profiles, roles, `credential_process`, `AWS_ENDPOINT_URL` and `AWS_CA_BUNDLE` mean to a warehouse what they mean to every tool
on boto3. Lance follows the environment and `AWS_PROFILE` by itself and renews what expires; only what it cannot see for itself is handed
to it: the keys of a profile that is named in the options (`aws_profile`), and those of single sign-on. Where such keys run out, Lance asks
for the next ones, which boto3 has (see `_tables/renewed`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError

from stepwell.errors import StoreError
from stepwell.warehouse._tables.renewed import Renewed, keys_of

PROFILE = "aws_profile"
"""The storage option that names a profile. It is ours: Lance never sees it."""

_NOT_LANCES = ("sso", "login")
"""Ways to credentials that Lance does not go by itself."""


def session_of(options: Mapping[str, str]) -> Any:
    """The boto3 session of the options' profile, or of the environment's.

    Raises:
        StoreError: there is no such profile.
    """
    try:
        return boto3.Session(profile_name=options.get(PROFILE))
    except BotoCoreError as error:
        raise StoreError(f"cannot use the AWS configuration: {error}") from error


def seen_by_lance(options: Mapping[str, str]) -> dict[str, str]:
    """`options` with what boto3 finds and Lance does not: the profile's keys, the endpoint, the region, the certificates to trust.

    Raises:
        StoreError: the profile is not there, or its credentials cannot be had.
    """
    given = {name: value for name, value in options.items() if name != PROFILE}
    session = session_of(options)
    try:
        endpoint = {} if "aws_endpoint" in options else _endpoint(session)
        credentials = None if "aws_access_key_id" in options else _not_lances(session, options)
        fixed = ({"aws_region": session.region_name} if session.region_name else {}) | endpoint | given
        if isinstance(credentials, RefreshableCredentials):
            found: dict[str, str] = Renewed(fixed, session)
        else:
            found = fixed if credentials is None else {**keys_of(credentials), **fixed}
    except BotoCoreError as error:
        raise StoreError(f"cannot get credentials for the object store: {error}") from error
    except OSError as error:
        raise StoreError(str(error)) from error
    _trust(options)
    return found


def _not_lances(session: Any, options: Mapping[str, str]) -> Any:
    """The credentials, where Lance does not find them by itself."""
    credentials = session.get_credentials()
    seen = credentials is None or (PROFILE not in options and credentials.method not in _NOT_LANCES)
    return None if seen else credentials


def _endpoint(session: Any) -> dict[str, str]:
    """Where boto3 would go, unless that is AWS itself."""
    url: str = session.client("s3", region_name=session.region_name or "us-east-1").meta.endpoint_url
    if url.partition("://")[2].split("/")[0].endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return {}
    return {"aws_endpoint": url, "allow_http": "true"} if url.startswith("http://") else {"aws_endpoint": url}


def _trust(options: Mapping[str, str]) -> None:
    """Lance has no option for certificates; on Linux it reads the variable that OpenSSL does, as late as this."""
    bundle = botocore.session.Session(profile=options.get(PROFILE)).get_config_variable("ca_bundle")
    if bundle and "SSL_CERT_FILE" not in os.environ:
        os.environ["SSL_CERT_FILE"] = str(Path(bundle).expanduser())
