"""OpenAI chat completions, and every server that speaks them: plain and streamed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from stepwell.exchange._body import request_object, without
from stepwell.exchange._chat.messages import canonical_messages
from stepwell.exchange._chat.rebuild import answer_body, request_body
from stepwell.exchange._chat.reply import Reply, answer_of_reply, read_reply, said_in
from stepwell.exchange._chat.tokens import check_together, left_over, policy_of, tokens_of
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Asked, Choice, steps_of
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step

_PATHS = ("/chat/completions", "/agents/completions")
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")
_KEPT_REQUEST = frozenset({"stream", "stream_options", "user", "metadata"})
_NOT_SAMPLING = _KEPT_REQUEST | {"messages", "tools", "functions", "model"}
_MODELLED_CHOICE = frozenset(
    {
        "index",
        "message",
        "finish_reason",
        "logprobs",
        "token_ids",
        "response_token_ids",
        "prompt_token_ids",
    }
)
_ENGINE_FLAGS: dict[str, dict[str, Any]] = {
    "vllm": {"return_token_ids": True, "logprobs": True},
    "sglang": {"return_token_ids": True, "logprobs": True},
    "llamacpp": {"logprobs": True},
}
_SGLANG_STREAM = {"logprobs": True, "x-sglext-return-input-ids": "1", "x-sglext-return-output-ids": "1"}


class OpenAIChat:
    """`POST …/chat/completions`, and `…/agents/completions`, which is Mistral's for the same."""

    name = "openai.chat"

    def matches(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith(_PATHS)

    def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:
        # SGLang refuses `return_token_ids` on a streamed call, and gives the ids in a late chunk where these headers ask for them.
        streamed = engine == "sglang" and body.get("stream")
        wanted = _SGLANG_STREAM if streamed else _ENGINE_FLAGS.get(engine, {})
        return {key: value for key, value in wanted.items() if body.get(key) != value}

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        return steps_of(exchange, _asked(exchange), _answer(read_reply(exchange.response)))

    def request_of(self, step: Step) -> dict[str, Any]:
        return request_body(step)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        return answer_body(steps)


def _request(body: bytes) -> dict[str, Any]:
    asked = request_object(body)
    if not isinstance(asked.get("messages"), list):
        raise Unparseable("the request has no list of messages")
    return asked


def _asked(exchange: Exchange) -> Asked:
    body = _request(exchange.request.body)
    try:
        messages = canonical_messages(body["messages"])
    except ValueError as error:
        raise Unparseable(f"a message of the request cannot be read: {error}") from None
    kept = _KEPT_REQUEST | ({"functions"} if body.get("tools") else set())
    return Asked(
        messages=messages,
        tools=body.get("tools") or body.get("functions"),
        sampling={key: value for key, value in body.items() if key not in _NOT_SAMPLING | set(exchange.added)},
        model=body.get("model") or deployment_of(exchange.request.url),
        extra={key: value for key, value in body.items() if key in kept},
    )


def deployment_of(url: str) -> str | None:
    """The deployment that Azure's paths name: `…/openai/deployments/<name>/chat/completions`."""
    named = _DEPLOYMENT.search(url.partition("?")[0])
    return unquote(named[1]) if named else None


def _answer(reply: Reply) -> Answer:
    counted = _completion_tokens(reply)
    alone = counted if len(reply.choices) == 1 else None
    choices = [_choice(reply, reply.choices[index], alone) for index in sorted(reply.choices)]
    check_together(choices, counted)
    answer = answer_of_reply(reply, choices)
    answer.usage, answer.extra = _usage(reply), _without_known_ids(answer.extra, choices)
    return answer


def _without_known_ids(extra: dict[str, Any], choices: Sequence[Choice]) -> dict[str, Any]:
    """The root's other fields, token ids only where no step has them."""
    if any(choice.tokens.prompt_ids for choice in choices):
        extra.pop("prompt_token_ids", None)
        if isinstance(beside := extra.pop("sglext", None), Mapping) and (
            rest := without(dict(beside), "input_ids", "output_ids")
        ):
            extra["sglext"] = rest
    return extra


def _choice(reply: Reply, choice: dict[str, Any], completion_tokens: int | None) -> Choice:
    finish_reason = choice.get("finish_reason") or None
    version, label = policy_of(reply.root, choice)
    tokens = tokens_of(reply.root, choice, completion_tokens)
    kept = {key: value for key, value in choice.items() if key not in _MODELLED_CHOICE and value is not None}
    return Choice(
        message=said_in(choice),
        index=choice["index"],
        finish_reason=finish_reason,
        cut=finish_reason in ("length", "abort"),  # aborted by the server: partial rollouts are resumed later
        failed=finish_reason == "error" or bool(choice.get("error")),  # OpenRouter tells of a failure inside the choice
        tokens=tokens,
        policy_version=version,
        policy_label=label,
        extra={**kept, **left_over(choice, tokens)},
    )


def _usage(reply: Reply) -> Any:
    """The root's; streams of Moonshot have it in the choice, and Groq's in a field of their own."""
    sources = [reply.root, reply.root.get("x_groq"), *(reply.choices.values() if len(reply.choices) == 1 else ())]
    return next((usage for source in sources if isinstance(source, Mapping) and (usage := source.get("usage"))), None)


def _completion_tokens(reply: Reply) -> int | None:
    """How many tokens usage counts, of all choices together."""
    usage = _usage(reply)
    tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return tokens if type(tokens) is int else None
