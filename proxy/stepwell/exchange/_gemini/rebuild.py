"""Gemini's bodies from steps: the request that a step came from, and the plain answer that the steps of one exchange came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.exchange._gemini.messages import vendor_content
from stepwell.exchange._gemini.reply import lack_of
from stepwell.sdk.records import Step

NOTE = "incomplete_prompt"
"""In a request's extras, our own word on what its messages lack."""
_STEERING = ("toolConfig", "safetySettings")


def request_body(step: Step) -> dict[str, Any]:
    """The request, in camelCase; the model is in its path, or beside it in Code Assist's envelope."""
    kept = _kept(step, "request")
    kept.pop(NOTE, None)
    envelope = kept.pop("envelope", None)
    messages = list(step.messages or [])
    body: dict[str, Any] = {}
    if messages and messages[0]["role"] == "system" and (messages[0].get("extra") or {}).get("role") != "system":
        body["systemInstruction"] = vendor_content(messages.pop(0))
    body["contents"] = [vendor_content(message) for message in messages]
    if step.tools:
        body["tools"] = step.tools
    sampling = dict(step.sampling or {})
    body |= {name: sampling.pop(name) for name in _STEERING if name in sampling}
    if sampling:
        body["generationConfig"] = sampling
    body |= kept
    if envelope is None:
        return body
    return {**({"model": step.model_asked} if step.model_asked else {}), **envelope, "request": body}


def answer_body(steps: Sequence[Step]) -> dict[str, Any]:
    """The answer in its plain form; of several candidates, one per step."""
    first = steps[0]
    kept = _kept(first, "response")
    envelope = kept.pop("envelope", None)
    named = {"modelVersion": first.model, "responseId": first.response_id, "usageMetadata": first.usage}
    body = {name: value for name, value in named.items() if value is not None} | kept
    if candidates := [candidate for step in steps if (candidate := _candidate(step))]:
        body["candidates"] = candidates
    error = (first.extra or {}).get("error")
    if error and error != lack_of(kept):
        body["error"] = error
    return body if envelope is None else {"response": body, **envelope}


def _candidate(step: Step) -> dict[str, Any]:
    """The step's candidate; empty when there was none."""
    message = step.response or {"role": "assistant", "content": []}
    content = vendor_content(message) if message["content"] or message.get("extra") else {}
    ended = {"finishReason": step.finish_reason} if step.finish_reason else {}
    said = {**({"content": content} if content else {}), **ended, **_kept(step, "choice")}
    index = int(step.step_id.rpartition(".")[2])
    return {**said, **({"index": index} if index else {})} if said else {}


def _kept(step: Step, name: str) -> dict[str, Any]:
    return dict((step.extra or {}).get(name) or {})
