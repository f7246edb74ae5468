"""The engines' own APIs for generation: SGLang's `/generate`, llama.cpp's `/completion`, vLLM's `/inference/v1/generate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stepwell.exchange._body import request_object
from stepwell.exchange._canonical import Part
from stepwell.exchange._chat.tokens import left_over, policy_of, tokens_of
from stepwell.exchange._completions.prompts import Prompt, grouped, prompts_of
from stepwell.exchange._dialect import NoStep, Unparseable
from stepwell.exchange._engine.rebuild import answer_body, request_body
from stepwell.exchange._engine.reply import TEXTS, Outputs, meta_of, read_outputs
from stepwell.exchange._generation import Answer, Asked, Choice, Tokens, steps_of
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step

_PATHS = frozenset({"/generate", "/completion", "/inference/v1/generate"})
_PROMPTS = ("input_ids", "token_ids", "text", "prompt")
_KEPT = frozenset({"stream", "stream_options", "rid", "request_id"})
_FLAGS: dict[str, dict[str, Any]] = {
    "sglang": {"return_logprob": True, "return_prompt_token_ids": True},
    "llamacpp": {"return_tokens": True, "n_probs": 1},
}
_USAGE = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "tokens_evaluated",
    "tokens_predicted",
    "tokens_cached",
)
_STOPS = ("stopped_eos", "stopped_word", "stopped_limit")
_TOKENS = ("output_ids", "tokens", "token_ids", "prompt_token_ids", "completion_probabilities", "logprobs")
_MODELLED = frozenset({"index", "finish_reason", "model", *TEXTS, *_TOKENS})


class EngineGenerate:
    """`POST /generate`, `/completion`, `/inference/v1/generate`."""

    name = "engine.generate"

    def matches(self, method: str, path: str) -> bool:
        return method == "POST" and path in _PATHS

    def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:
        # More alternatives than one, where asked for, stay as they are.
        return {key: value for key, value in _FLAGS.get(engine, {}).items() if not body.get(key)}

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        body = request_object(exchange.request.body)
        name = next((name for name in _PROMPTS if body.get(name)), "text")
        prompts, parameters = prompts_of(body.get(name)), _parameters(body)
        if 0 in (parameters.get("max_new_tokens"), body.get("n_predict")):
            raise NoStep("nothing was to be generated: the prompt was only read")
        outputs = read_outputs(exchange.response)
        asked = _asked(exchange, body, name)
        steps: list[Step] = []
        for place, indices in enumerate(grouped(outputs.items, len(prompts), parameters.get("n"))):
            own = {"prompt_index": place} if len(prompts) > 1 else {}
            said = replace(asked, messages=[prompts[place].message()], extra={**asked.extra, **own})
            for index in indices:
                steps += steps_of(exchange, said, _answer(outputs, index, prompts[place]))
        return steps

    def request_of(self, step: Step) -> dict[str, Any]:
        """Of a request with several prompts: the one with the step's own."""
        return request_body(step)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        return answer_body(steps)


def _parameters(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """SGLang and vLLM have the parameters in an object of their own, llama.cpp beside the prompt."""
    parameters = body.get("sampling_params")
    return parameters if isinstance(parameters, Mapping) else {}


def _asked(exchange: Exchange, body: dict[str, Any], name: str) -> Asked:
    unsampled = _KEPT | {name, "model"} | set(exchange.added)
    return Asked(
        messages=[],
        sampling={key: value for key, value in body.items() if key not in unsampled},
        model=body.get("model"),
        extra={**{key: value for key, value in body.items() if key in _KEPT}, "prompt_field": name},
    )


def _answer(outputs: Outputs, index: int, prompt: Prompt) -> Answer:
    item = outputs.items.get(index, {})
    counts = {**meta_of(item), **item}
    usage = {name: counts[name] for name in _USAGE if type(counts.get(name)) is int}
    nothing = Choice({"role": "assistant", "content": []}, index)
    return Answer(
        choices=[_choice(outputs, item, index, prompt, usage) if item else nothing],
        model=item.get("model") or outputs.root.get("model"),
        response_id=meta_of(item).get("id") or outputs.root.get("request_id") or outputs.root.get("id"),
        usage=usage or outputs.root.get("usage"),
        terminated=outputs.terminated,
        error=outputs.error,
        extra={
            key: value for key, value in outputs.root.items() if key not in ("usage", "model") and value is not None
        },
    )


def _choice(outputs: Outputs, item: dict[str, Any], index: int, prompt: Prompt, usage: Mapping[str, int]) -> Choice:
    reason, failed = _finish_reason(item)
    shaped = _as_chat(item)
    count = usage.get("completion_tokens", usage.get("tokens_predicted"))
    tokens = tokens_of({"prompt_token_ids": item.get("prompt_token_ids") or prompt.ids}, shaped, count)
    version, label = policy_of(outputs.root, item)
    text = next((item[name] for name in TEXTS if item.get(name)), "")
    if not isinstance(text, str):
        raise Unparseable("an output's text is no text")
    said: list[Part] = [{"type": "text", "text": text}] if text else []
    return Choice(
        message={"role": "assistant", "content": said},
        index=index,
        finish_reason=reason,
        cut=reason in ("length", "limit", "abort"),
        failed=failed,
        tokens=tokens,
        policy_version=version,
        policy_label=label,
        extra=_extra(item, shaped, tokens),
    )


def _extra(item: Mapping[str, Any], shaped: Mapping[str, Any], tokens: Tokens) -> dict[str, Any]:
    """What no field of the step takes. SGLang's logprobs stay where there are alternatives or no ids to give them to."""
    extra = {key: value for key, value in item.items() if key not in _MODELLED and value is not None}
    if tokens.response_ids is None:
        extra |= {key: item[key] for key in _TOKENS if item.get(key)}
    elif left_over(shaped, tokens):
        extra |= {key: item[key] for key in ("completion_probabilities", "logprobs") if item.get(key)}
    if tokens.logprobs is not None and (meta := meta_of(item)):
        extra["meta_info"] = {key: value for key, value in meta.items() if key != "output_token_logprobs"}
    return extra


def _as_chat(item: Mapping[str, Any]) -> dict[str, Any]:
    """The output's tokens under the names that chat has for them."""
    ids = next((item[name] for name in ("output_ids", "tokens", "token_ids") if item.get(name)), None)
    logprobs = item.get("logprobs") or {"content": item.get("completion_probabilities")}
    return {"token_ids": ids, "logprobs": logprobs, "meta_info": item.get("meta_info")}


def _finish_reason(item: Mapping[str, Any]) -> tuple[str | None, bool]:
    """The engine's word for the end, and whether it was a failure: SGLang says so of an abort that it was asked for by nobody."""
    reason = meta_of(item).get("finish_reason") or item.get("finish_reason") or item.get("stop_type")
    if isinstance(reason, Mapping):
        return reason.get("type"), bool(reason.get("status_code") or reason.get("err_type"))
    if reason is None:  # llama.cpp before it had `stop_type`
        reason = next((name.removeprefix("stopped_") for name in _STOPS if item.get(name)), None)
    return (None if reason == "none" else reason), False
