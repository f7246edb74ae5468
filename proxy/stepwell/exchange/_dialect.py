"""The seam between raw exchanges and steps: one object per API dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step


class Unparseable(Exception):
    """The exchange is not what its dialect promises. The message is the reason it is quarantined with."""


class Dialect(Protocol):
    """How one API says what the policy saw and what it answered."""

    name: str

    def matches(self, method: str, path: str) -> bool:
        """Whether a request is a generation in this dialect. Called for every request to a decrypted host: cheap."""
        ...

    def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Request fields that make `engine` return token ids and logprobs, where the agent has not set them so."""
        ...

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        """The steps of an exchange, one per choice; bodies are decoded already.

        The same exchange always gives the same steps. Partial answers give steps with a status that says so.

        Raises:
            Unparseable: the bytes are not of this dialect.
        """
        ...
