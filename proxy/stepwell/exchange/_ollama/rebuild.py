"""Steps back to Ollama's bodies."""

from __future__ import annotations

from typing import Any

from stepwell.exchange._canonical import Message
from stepwell.exchange._chat.rebuild import answered, extra_of, section
from stepwell.exchange._ollama.messages import ollama_message
from stepwell.sdk.records import Step


def chat_request(step: Step) -> dict[str, Any]:
    """The body of `/api/chat` that a step came from."""
    return {**_request(step), "messages": [ollama_message(message) for message in step.messages or ()]}


def generate_request(step: Step) -> dict[str, Any]:
    """The body of `/api/generate` that a step came from."""
    body = _request(step)
    for message in step.messages or ():
        body |= _system(message) if message["role"] == "system" else _prompt(message)
    return body


def _request(step: Step) -> dict[str, Any]:
    known = {"model": step.model_asked, "tools": step.tools}
    named = {key: value for key, value in known.items() if value is not None}
    return {**section(step, "request"), **(step.sampling or {}), **named}


def _system(message: Message) -> dict[str, Any]:
    return {"system": ollama_message(message)["content"]}


def _prompt(message: Message) -> dict[str, Any]:
    said = message["content"]
    prompt = [part for part in said if extra_of(part).get("field") != "suffix"]
    suffix = [part for part in said if extra_of(part).get("field") == "suffix"]
    asked = ollama_message({"role": "user", "content": prompt})
    made = {"prompt": asked["content"], **({"images": asked["images"]} if "images" in asked else {})}
    return {**made, **({"suffix": suffix[0]["text"]} if suffix else {})}


def chat_answer(step: Step) -> dict[str, Any]:
    """The plain answer of `/api/chat` that a step came from."""
    message = ollama_message(step.response or {"role": "assistant", "content": []})
    return {**_answer(step), **({"message": message} if answered(step) else {})}


def generate_answer(step: Step) -> dict[str, Any]:
    """The plain answer of `/api/generate` that a step came from."""
    if not answered(step):
        return _answer(step)
    message = ollama_message(step.response or {"role": "assistant", "content": []})
    del message["role"]
    return {**_answer(step), "response": message.pop("content"), **message}


def _answer(step: Step) -> dict[str, Any]:
    known = {"model": step.model, "done_reason": step.finish_reason, "error": (step.extra or {}).get("error")}
    if answered(step):
        known["done"] = step.finish_reason is not None or step.status == "ok"
    named = {key: value for key, value in known.items() if value is not None}
    return {**section(step, "response"), **section(step, "choice"), **named, **(step.usage or {})}
