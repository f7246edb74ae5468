"""The completions API from before chat: a prompt, or several, and text after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stepwell.exchange._body import request_object
from stepwell.exchange._chat.dialect import deployment_of
from stepwell.exchange._chat.reply import Reply, answer_of_reply, read_reply
from stepwell.exchange._chat.tokens import check_together
from stepwell.exchange._completions.prompts import Prompt, grouped, prompts_of
from stepwell.exchange._completions.rebuild import answer_body, request_body
from stepwell.exchange._completions.reply import choice_of, counted_tokens
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Asked, Choice, steps_of
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step

_KEPT = frozenset({"stream", "stream_options", "user", "metadata"})
_SAID = frozenset({"model", "prompt", "suffix"})
_CHATS = ("/chat/completions", "/agents/completions")
_ENGINES_WITH_IDS = ("vllm", "sglang")


class OpenAICompletions:
    """`POST …/completions`, where it is not chat's."""

    name = "openai.completions"

    def matches(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/completions") and not path.endswith(_CHATS)

    def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if engine not in _ENGINES_WITH_IDS:
            return {}
        wanted = {} if body.get("return_token_ids") is True else {"return_token_ids": True}
        # Any number of alternatives brings the logprob of the sampled token along: more than asked for stays as it is.
        alternatives = body.get("logprobs")
        return wanted if type(alternatives) is int and alternatives > 0 else {**wanted, "logprobs": 1}

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        body = request_object(exchange.request.body)
        if body.get("messages") and body.get("prompt") is None:
            raise Unparseable("the request has messages where a prompt belongs")
        prompts, suffix = prompts_of(body.get("prompt")), body.get("suffix") or ""
        if not isinstance(suffix, str):
            raise Unparseable("the request's suffix is no text")
        asked = _asked(exchange, body)
        reply = read_reply(exchange.response)
        groups = grouped(reply.choices, len(prompts), body.get("n"))
        answers = [_answer(reply, body, prompt, indices) for prompt, indices in zip(prompts, groups, strict=True)]
        if body.get("best_of") in (None, 1):
            check_together([choice for answer in answers for choice in answer.choices], counted_tokens(reply))
        steps: list[Step] = []
        for place, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
            own = {"prompt_index": place} if len(prompts) > 1 else {}
            said = replace(asked, messages=[prompt.message(suffix)], extra={**asked.extra, **own})
            steps += steps_of(exchange, said, answer)
        return steps

    def request_of(self, step: Step) -> dict[str, Any]:
        """Of a request with several prompts: the one with the step's own."""
        return request_body(step)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        return answer_body(steps)


def _asked(exchange: Exchange, body: dict[str, Any]) -> Asked:
    unsampled = _KEPT | _SAID | set(exchange.added)
    return Asked(
        messages=[],
        sampling={key: value for key, value in body.items() if key not in unsampled},
        model=body.get("model") or deployment_of(exchange.request.url),
        extra={key: value for key, value in body.items() if key in _KEPT},
    )


def _answer(reply: Reply, body: Mapping[str, Any], prompt: Prompt, indices: list[int]) -> Answer:
    nothing = {"role": "assistant", "content": []}
    echoed = prompt.text if body.get("echo") else ""
    alone = len(reply.choices) == 1 and body.get("best_of") in (None, 1)
    choices = [
        choice_of(reply, index, prompt.ids, echoed, counted=alone) if index in reply.choices else Choice(nothing, index)
        for index in indices
    ]
    return answer_of_reply(reply, choices)
