"""Steps back to the bodies of the completions API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.exchange._canonical import text_of
from stepwell.exchange._chat.rebuild import answered, chat_message, failed, index_of, root_of, section
from stepwell.exchange._completions.prompts import prompt_of, suffix_of
from stepwell.sdk.records import Step


def request_body(step: Step) -> dict[str, Any]:
    """The request that a step came from, with its own prompt where there were several."""
    body = {**section(step, "request"), **(step.sampling or {})}
    body.pop("prompt_index", None)
    if step.model_asked:
        body["model"] = step.model_asked
    return {**body, **suffix_of(step), "prompt": prompt_of(step)}


def answer_body(steps: Sequence[Step]) -> dict[str, Any]:
    """The plain answer that the steps of one exchange came from; of a failed one, its error with what came before."""
    choices = [_choice(step) for step in steps if answered(step)]
    body = root_of(steps, "text_completion")
    return {**body, "choices": choices} if choices or not failed(steps[0]) else body


def _choice(step: Step) -> dict[str, Any]:
    said = step.response or {"role": "assistant", "content": []}
    message = {key: value for key, value in chat_message(said).items() if key not in ("role", "content")}
    choice = {
        **section(step, "choice"),
        **message,
        "index": index_of(step),
        "text": text_of({"content": said["content"]}),
        "finish_reason": step.finish_reason,
    }
    if step.response_ids is not None:
        choice["token_ids"] = step.response_ids
    if step.prompt_ids is not None and step.prompt_ids != prompt_of(step):
        choice["prompt_token_ids"] = step.prompt_ids
    return choice
