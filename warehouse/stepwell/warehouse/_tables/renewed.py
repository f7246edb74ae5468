"""Keys to an object store that run out after an hour, and a session of weeks.

Lance takes keys as options, which stay as they are, but for one way: a table that is opened through a namespace gets its options from
there, with the time at which they are to be asked for again. So there is a namespace of one table, whose options are what boto3 says now.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError

ASKED_AGAIN = 30.0
"""Seconds after which Lance asks again. boto3 answers from memory, and gets new keys a quarter of an hour before the old ones run out."""


class Renewed(dict[str, str]):
    """Storage options with keys that run out: as a dict those of the beginning, for what is done at once."""

    def __init__(self, fixed: Mapping[str, str], session: Any) -> None:
        """`fixed`: what does not run out. `session`: boto3's, which renews its credentials."""
        self.session = session
        self._fixed = dict(fixed)
        super().__init__(self.now())

    def now(self) -> dict[str, str]:
        """With the keys of this moment.

        Raises:
            OSError: there are none any more, as when somebody has to sign in again. What Lance makes of a store that fails is one, too.
        """
        try:
            return self._fixed | keys_of(self.session.get_credentials())
        except BotoCoreError as error:
            raise OSError(f"cannot get credentials for the object store: {error}") from error

    def namespace(self, uri: str) -> Any:
        """For Lance, of the table at `uri`."""
        from lance_namespace import DescribeTableResponse, LanceNamespace

        options = self

        class Namespace(LanceNamespace):
            def namespace_id(self) -> str:
                return f"stepwell {uri}"

            def describe_table(self, request: object) -> DescribeTableResponse:  # noqa: ARG002 — there is one table
                until = int((time.time() + 2 * ASKED_AGAIN) * 1000)
                renewal = {"expires_at_millis": str(until), "refresh_offset_millis": str(int(ASKED_AGAIN * 1000))}
                return DescribeTableResponse(location=uri, storage_options=options.now() | renewal)

        return Namespace()


def current(options: Mapping[str, str]) -> dict[str, str]:
    """Storage options as they are now."""
    return options.now() if isinstance(options, Renewed) else dict(options)


def keys_of(credentials: Any) -> dict[str, str]:
    """boto3's credentials in Lance's words."""
    keys = credentials.get_frozen_credentials()
    found = {
        "aws_access_key_id": keys.access_key,
        "aws_secret_access_key": keys.secret_key,
        "aws_session_token": keys.token,
    }
    return {name: value for name, value in found.items() if value}
