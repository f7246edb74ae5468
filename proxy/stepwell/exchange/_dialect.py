"""The seam between raw exchanges and steps: one object per API dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stepwell.exchange._canonical import Message
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step


class Unparseable(Exception):
    """The exchange is not what its dialect promises. The message is the reason it is quarantined with."""


@dataclass(frozen=True, slots=True)
class Context:
    """A conversation that the provider remembers under the id of a response that was none."""

    response_id: str
    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    continues: str | None = None


class NoStep(Exception):
    """A generation by its path, and no step of a policy all the same: a warm-up, an answer that is only fetched later.

    `context` is set where later calls may continue it, so that it must be remembered.
    """

    def __init__(self, reason: str, context: Context | None = None) -> None:
        super().__init__(reason)
        self.context = context


class Dialect(Protocol):
    """How one API says what the policy saw and what it answered."""

    name: str

    def matches(self, method: str, path: str) -> bool:
        """Whether a request is a generation in this dialect. Called for every request to a decrypted host: cheap."""
        ...

    def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What makes `engine` return token ids and logprobs, where the agent has not asked for them.

        Fields of the body; a name that begins with `x-` is a header, its value a string.
        """
        ...

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        """The steps of an exchange, one per choice; bodies are decoded already.

        The same exchange always gives the same steps. Partial answers give steps with a status that says so.

        Raises:
            Unparseable: the bytes are not of this dialect.
            NoStep: they are, and are no step.
        """
        ...

    def request_of(self, step: Step) -> dict[str, Any]:
        """The body of the request that a parsed step came from, as far as meaning goes."""
        ...

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        """The body of the answer that the steps of one exchange came from, in its plain (not streamed) form."""
        ...


class WithoutFlags:
    """What a dialect is in which no engine gives token ids: there is nothing to ask for."""

    def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the protocol's signature
        return {}
