"""Steps back to the bodies of the engines' own APIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.exchange._canonical import text_of
from stepwell.exchange._chat.rebuild import answered, index_of, section
from stepwell.exchange._completions.prompts import prompt_of
from stepwell.sdk.records import Step

_OURS = ("prompt_field", "prompt_index")


def request_body(step: Step) -> dict[str, Any]:
    """The request that a step came from, with its own prompt where there were several."""
    kept = section(step, "request")
    name = str(kept.get("prompt_field", "text"))
    body = {key: value for key, value in kept.items() if key not in _OURS}
    named = {"model": step.model_asked} if step.model_asked else {}
    return {**body, **(step.sampling or {}), **named, name: prompt_of(step)}


def answer_body(steps: Sequence[Step]) -> dict[str, Any]:
    """The answer that the steps of one exchange came from, its outputs as `choices`; one output alone as what it is."""
    outputs = [_output(step) for step in steps if answered(step)]
    first = steps[0]
    error = (first.extra or {}).get("error")
    root = {**section(first, "response"), **({} if error is None else {"error": error})}
    if len(outputs) == 1 and "choices" not in root and _form(first) != "token_ids":
        return {**root, **outputs[0]}
    return {**root, **_shared(first), "choices": outputs} if outputs else root


def _form(step: Step) -> str:
    """The name that the engine has for the ids of an answer."""
    kept = section(step, "choice")
    if "meta_info" in kept:
        return "output_ids"
    return "tokens" if "stop" in kept else "token_ids"


def _shared(step: Step) -> dict[str, Any]:
    """vLLM counts and names all choices together."""
    if _form(step) != "token_ids":
        return {}
    known = {"usage": step.usage, "model": step.model}
    return {key: value for key, value in known.items() if value is not None}


def _output(step: Step) -> dict[str, Any]:
    form, output = _form(step), section(step, "choice")
    text = text_of(step.response) if step.response else ""
    if form == "token_ids":
        output |= {"index": index_of(step), "finish_reason": step.finish_reason}
    if form != "token_ids" or text:
        output["content" if form == "tokens" else "text"] = text
    if step.response_ids is not None:
        output[form] = step.response_ids
    if step.prompt_ids is not None and step.prompt_ids != prompt_of(step):
        output["prompt_token_ids"] = step.prompt_ids
    if step.model and form == "tokens":
        output["model"] = step.model
    return _with_logprobs(output, step, form)


def _with_logprobs(output: dict[str, Any], step: Step, form: str) -> dict[str, Any]:
    if step.logprobs is None:
        return output
    pairs = list(zip(step.logprobs, step.response_ids or (), strict=True))
    if form == "output_ids":
        triples = [[value, id_, None] for value, id_ in pairs]
        return {**output, "meta_info": {**output["meta_info"], "output_token_logprobs": triples}}
    entries = [{"id": id_, "logprob": value} for value, id_ in pairs]
    if form == "tokens":
        return {"completion_probabilities": entries, **output}
    return {"logprobs": {"content": entries}, **output}
