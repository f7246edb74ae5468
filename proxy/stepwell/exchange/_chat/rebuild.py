"""Steps back to chat bodies: the request that was asked, and the answer that came, as far as meaning goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepwell.exchange._canonical import Message, Part
from stepwell.sdk.records import Step

_MEDIA = ("image_url", "input_audio", "file")


def request_body(step: Step) -> dict[str, Any]:
    """The chat request that `step` came from, without the fields that the route added."""
    body = {**section(step, "request"), **(step.sampling or {})}
    if step.model_asked:
        body["model"] = step.model_asked
    if step.tools is not None:
        body["functions" if _are_functions(step.tools) else "tools"] = step.tools
    return {**body, "messages": [chat_message(message) for message in step.messages or ()]}


def answer_body(steps: Sequence[Step]) -> dict[str, Any]:
    """The plain chat answer that the steps of one exchange came from; of a failed one, its error with what came before."""
    body = root_of(steps, "chat.completion")
    if prompt_ids := next((step.prompt_ids for step in steps if step.prompt_ids), None):
        body["prompt_token_ids"] = prompt_ids
    choices = [_choice(step) for step in steps if answered(step)]
    return {**body, "choices": choices} if choices or not failed(steps[0]) else body


def section(step: Step, name: str) -> dict[str, Any]:
    """One part of what a step keeps beside its fields: of the `request`, of the `response`, of the `choice`."""
    kept = (step.extra or {}).get(name)
    return dict(kept) if isinstance(kept, Mapping) else {}


def root_of(steps: Sequence[Step], kind: str) -> dict[str, Any]:
    """The fields of an answer that its choices share; those of an error object that has no `error` field as they were."""
    step = steps[0]
    error = (step.extra or {}).get("error")
    if isinstance(error, Mapping) and error.get("object") == "error":
        return {**section(step, "response"), **error}
    known = {"id": step.response_id, "model": step.model, "usage": step.usage, "error": error}
    return {
        **section(step, "response"),
        **({} if failed(step) else {"object": kind}),
        **{key: value for key, value in known.items() if value is not None},
    }


def failed(step: Step) -> bool:
    return "error" in (step.extra or {})


def answered(step: Step) -> bool:
    """Whether the step is of a choice, and not only of a call that failed."""
    said = (step.response or {}).get("content")
    return bool(said or step.finish_reason or section(step, "choice") or not failed(step))


def index_of(step: Step) -> int:
    """The choice's index, which a step's id ends with."""
    number = step.step_id.rpartition(".")[2]
    return int(number) if number.removeprefix("-").isdecimal() else 0


def _choice(step: Step) -> dict[str, Any]:
    choice: dict[str, Any] = {
        **section(step, "choice"),
        "index": index_of(step),
        "message": chat_message(step.response or {"role": "assistant", "content": []}),
        "finish_reason": step.finish_reason,
    }
    if step.response_ids is not None:
        choice["token_ids"] = step.response_ids
    if step.logprobs is not None and "logprobs" not in choice:
        named = zip(step.response_ids or (), step.logprobs, strict=True)
        # The text of a token is the tokenizer's to say: it is named as vLLM names it when asked to.
        choice["logprobs"] = {"content": [{"token": f"token_id:{id_}", "logprob": value} for id_, value in named]}
    return choice


def _are_functions(tools: Iterable[Mapping[str, Any]]) -> bool:
    """Whether these are the `functions` of the API before it had tools: bare, where a tool wraps them."""
    return all("name" in tool and "function" not in tool and "type" not in tool for tool in tools)


def chat_message(message: Message) -> dict[str, Any]:
    """A canonical message as chat has it: neighbouring texts stay parts, a single text is a string."""
    extra = extra_of(message)
    made: dict[str, Any] = {**extra, "role": "function" if extra.get("role") == "function" else message["role"]}
    said = message["content"]
    if len(said) == 1 and said[0]["type"] == "tool_result":
        made |= _result_fields(said[0])
        said = said[0]["content"]
    content: list[Part] = []
    for part in said:
        if not _add_field(made, part):
            content.append(part)
    made |= _refusal_field(content)
    if content:
        made["content"] = _content(content)
    elif message["role"] != "assistant":
        made["content"] = ""
    return made


def extra_of(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a part or a message carries; whoever submits by hand may give anything there."""
    extra = said.get("extra")
    return extra if isinstance(extra, Mapping) else {}


def _result_fields(part: Part) -> dict[str, Any]:
    """The call that a result answers; that of a function goes by its name, which is among the message's own fields."""
    by_name = extra_of(part).get("by") == "name"
    return {} if by_name or part.get("id") is None else {"tool_call_id": part["id"]}


def _add_field(made: dict[str, Any], part: Part) -> bool:
    """Put a part into the field of the message that it came from; False when it belongs to the content."""
    extra = extra_of(part)
    if part["type"] == "reasoning" and isinstance(extra.get("name"), str):
        also = extra.get("also")
        for name in (extra["name"], *(also if isinstance(also, list) else ())):
            made.setdefault(name, part["text"])  # `reasoning_details` is there already, whole
        return True
    if part["type"] != "tool_call":
        return False
    if extra.get("field") == "function_call":
        made["function_call"] = {"name": part["name"], "arguments": part["arguments"], **_function(extra)}
    else:
        made.setdefault("tool_calls", []).append(chat_call(part))
    return True


def chat_call(part: Part) -> dict[str, Any]:
    """A tool call as chat has it."""
    extra = extra_of(part)
    kind = extra.get("type", "function")
    inner, text = ("custom", "input") if kind == "custom" else ("function", "arguments")
    function = {"name": part["name"], text: part["arguments"], **_function(extra)}
    rest = {key: value for key, value in extra.items() if key != "function"}
    return {**rest, "id": part.get("id"), "type": kind, inner: function}


def _function(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    function = extra.get("function")
    return function if isinstance(function, Mapping) else {}


def _refusal_field(content: list[Part]) -> dict[str, Any]:
    """The refusal that a message ends with is its field; `content` loses it. One between other parts stays there."""
    if content and content[-1]["type"] == "refusal" and "extra" not in content[-1]:
        return {"refusal": content.pop()["text"]}
    return {}


def _content(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    if len(parts) == 1 and parts[0].keys() == {"type", "text"} and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return [_part(part) for part in parts]


def _part(part: Part) -> dict[str, Any]:
    extra = extra_of(part)
    match part["type"]:
        case "text":
            return {**extra, "type": "text", "text": part["text"]}
        case "refusal":
            return {**extra, "type": "refusal", "refusal": part["text"]}
        case "reasoning":
            thinking = [{"type": "text", "text": part["text"]}]
            return {"thinking": thinking, **extra, "type": "thinking"}
        case "other" if extra:
            return dict(extra)
        case "image" | "audio" | "file" if kind := next((name for name in _MEDIA if name in extra), None):
            return {**extra, "type": kind}
    return {key: value for key, value in part.items() if key != "hash"}
