"""Every dialect there is, which one a request speaks, and the way from an exchange to its steps."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.exchange._anthropic import AnthropicMessages
from stepwell.exchange._attribution import claim_of
from stepwell.exchange._bedrock import BedrockConverse, BedrockInvoke
from stepwell.exchange._chat import OpenAIChat
from stepwell.exchange._clean_body import clean_body
from stepwell.exchange._completions import OpenAICompletions
from stepwell.exchange._declared import stamped_all
from stepwell.exchange._dialect import Dialect, Unparseable
from stepwell.exchange._encoding import decoded
from stepwell.exchange._engine import EngineGenerate
from stepwell.exchange._first_token import first_token_ns
from stepwell.exchange._gemini import Gemini
from stepwell.exchange._generation import time_of
from stepwell.exchange._ollama import OllamaChat, OllamaGenerate
from stepwell.exchange._raw import Exchange, with_bodies
from stepwell.exchange._responses import OpenAIResponses
from stepwell.sdk.records import Step

_DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        OpenAIChat(),
        OpenAIResponses(),
        OpenAICompletions(),
        OllamaChat(),
        OllamaGenerate(),
        EngineGenerate(),
        AnthropicMessages(),
        Gemini(),
        BedrockConverse(),
        BedrockInvoke(),
    )
}


def dialects() -> tuple[str, ...]:
    """The names of all dialects."""
    return tuple(_DIALECTS)


def dialect_for(method: str, path: str) -> Dialect | None:
    """The dialect of a request, by its method and path (a query string may follow); None when it is no generation."""
    path = path.partition("?")[0]
    return next((dialect for dialect in _DIALECTS.values() if dialect.matches(method, path)), None)


def parse(exchange: Exchange) -> Sequence[Step]:
    """The steps of an exchange, one per choice, always the same for the same exchange.

    Raises:
        Unparseable: the exchange cannot be read; its message is the reason.
    """
    dialect = _DIALECTS.get(exchange.dialect)
    if dialect is None:
        if not exchange.request_known:
            raise Unparseable("the request was not recorded, and the answer is of no known API")
        raise Unparseable(f"unknown dialect {exchange.dialect!r}")
    request, response = exchange.request, exchange.response
    if request.truncated:
        raise Unparseable(f"the request is larger than what capture keeps ({len(request.body)} bytes kept)")
    asked = decoded(request.body, request.headers)
    if asked.problem:
        raise Unparseable(f"the request body cannot be decoded: {asked.problem}")
    answered = decoded(response.body, response.headers)
    if answered.problem and response.end == "complete":
        raise Unparseable(f"the response body cannot be decoded: {answered.problem}")
    # Once more here: not every exchange came through a spool entry of this version.
    bodies = (clean_body(body, exchange.dialect) for body in (asked.body, answered.body))
    whole = with_bodies(exchange, *bodies)
    steps = dialect.parse(whole)
    if first := first_token_ns(dialect, whole):
        steps = [step.model_copy(update={"first_token_at": time_of(first)}) for step in steps]
    if exchange.declared is not None and claim_of(exchange).policy_version is None:  # what the caller says counts more
        steps = stamped_all(steps, exchange.declared, response.declared or exchange.declared)
    return steps if exchange.request_known else [_of_answer_only(step) for step in steps]


def _of_answer_only(step: Step) -> Step:
    """What the policy saw is not known, so there is nothing to train on."""
    reason = "the request was not recorded"
    return step.model_copy(
        update={"trainable": False, "untrainable_reason": reason, "model_asked": None, "policy": None}
    )
