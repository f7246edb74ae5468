"""What the `[redact]` rules do to records: to steps, what was learned about them, and to what is quarantined.

A step in which something was found is not trained on: its text is no longer what the policy saw or said. Its token ids and logprobs
would spell what was taken out, so they are left out too. Ids of things (trajectories, calls, answers) are names, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from stepwell.exchange import Context, decode
from stepwell.exchange.canonical import Message
from stepwell.sdk.records import Feedback, Step, Trajectory
from stepwell.warehouse._redact.rules import Names, RedactionFailed, Redactor

Conversation = tuple[Step, list[Message] | None, Message | None]

_FORM = frozenset({"role", "type", "id", "hash"})
"""Fields of canonical messages and parts that are form, or a name that another part repeats."""
_TOKENS = re.compile(
    r"(?i)logprob|probs$|token_?ids|(input|output|prompt|response)_?ids|^tokens$|^bytes$|^context$|^sglext$|^meta_info$"
)
"""Fields of an `extra` that spell the text once more, token by token."""
_UNSEEN = "what it continues is not in the call, so the redaction rules could not look at all of its prompt"


def redacted_step(
    redactor: Redactor, step: Step, messages: list[Message] | None, response: Message | None
) -> Conversation:
    """A step with its conversation in canonical form, as it may be stored.

    Raises:
        RedactionFailed: a rule did not work.
    """
    if not redactor:
        return step, messages, response
    found: Names = {}
    said = None if messages is None else [_message(redactor, message, found) for message in messages]
    answer = None if response is None else _message(redactor, response, found)
    named = ("tools", "sampling", "usage", "extra")
    fields = {name: redactor.values(getattr(step, name), found) for name in named}
    # What rules look at and no token spells.
    beside: Names = {}
    fields["metadata"] = redactor.values(step.metadata, beside)
    why = None if step.untrainable_reason is None else redactor.text(step.untrainable_reason, {})
    if found:
        answer = None if answer is None else _without_tokens(answer)
        fields["extra"] = _without_tokens(fields["extra"])
    reason = f"redacted by {', '.join(found | beside)}" if found or beside else None
    if not found and step.continues is not None and step.prompt_ids is not None:
        found, reason = {_UNSEEN: None}, reason or _UNSEEN
    if reason is None:
        return step.model_copy(update={"untrainable_reason": why}), messages, response
    update = fields | {"trainable": False, "untrainable_reason": f"{reason}; {why}" if why else reason}
    if found:
        update |= {"prompt_ids": None, "response_ids": None, "logprobs": None}
    return step.model_copy(update=update), said, answer


def redacted_feedback(redactor: Redactor, feedback: Feedback) -> Feedback:
    """Its comment, label, correction and metadata redacted."""
    if not redactor:
        return feedback
    update: dict[str, Any] = {
        name: redactor.values(getattr(feedback, name), {}) for name in ("comment", "label", "metadata")
    }
    if feedback.correction is not None:
        update["correction"] = _message(redactor, feedback.correction, {})
    return feedback.model_copy(update=update)


def redacted_trajectory(redactor: Redactor, trajectory: Trajectory) -> Trajectory:
    """Its metadata and the reason of its end redacted."""
    if not redactor:
        return trajectory
    return trajectory.model_copy(
        update={name: redactor.values(getattr(trajectory, name), {}) for name in ("metadata", "reason")}
    )


def redacted_context(redactor: Redactor, context: Context) -> Context:
    """Its messages and tools redacted."""
    if not redactor:
        return context
    messages = [_message(redactor, message, {}) for message in context.messages]
    tools: Any = redactor.values(context.tools, {})
    return replace(context, messages=messages, tools=tools)


def redacted_quarantine(redactor: Redactor, row: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    """A row of `exchanges` as it may be stored. `failed`: a rule did not work on the record, so that nothing of it is kept."""
    if not redactor:
        return row
    texts = ("request_head", "request_body", "response_head", "response_body")
    try:
        if failed:
            return row | dict.fromkeys(texts)
        found: Names = {}
        update: dict[str, Any] = {"reason": redactor.text(row["reason"], found)}
        for side in ("request", "response"):
            head, body = row[f"{side}_head"], row[f"{side}_body"]
            head, body = _redacted_body(redactor, head, body, found)
            update |= {f"{side}_head": None if head is None else redactor.text(head, found), f"{side}_body": body}
        if found:
            update["reason"] += f" (redacted by {', '.join(found)})"
        return row | update
    except (RedactionFailed, RecursionError, UnicodeEncodeError) as error:
        reason = "the redaction rules gave what is no Unicode text"
        if isinstance(error, RedactionFailed):
            reason = str(error)
        elif isinstance(error, RecursionError):
            reason = "nested too deeply for the redaction rules"
        return row | dict.fromkeys(texts) | {"reason": reason}


def _message(redactor: Redactor, message: Message, found: Names) -> Message:
    """A message or a part: its form stays, what it says does not."""
    new: Message = {}
    for key, value in message.items():
        if key in _FORM and isinstance(value, str):
            new[key] = value
        elif key in ("content", "tool_calls") and isinstance(value, list):
            new[key] = [
                _message(redactor, part, found) if isinstance(part, dict) else redactor.values(part, found)
                for part in value
            ]
        else:
            new[key] = redactor.values(value, found)
    return new


def _without_tokens(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_tokens(inner) for key, inner in value.items() if not _TOKENS.search(key)}
    return [_without_tokens(inner) for inner in value] if isinstance(value, list) else value


def _redacted_body(
    redactor: Redactor, head: str | None, body: bytes | None, found: Names
) -> tuple[str | None, bytes | None]:
    """Head and body; a compressed body in which something was found is kept as plain text, and its head says so."""
    if not body:
        return head, body
    fields = _fields(head)
    headers = [pair for pair in fields.get("headers") or [] if isinstance(pair, list) and len(pair) == 2]
    coded = ", ".join(str(value) for name, value in headers if name == "content-encoding")
    text = decode(body, coded).body.decode(
        "utf-8", "surrogateescape"
    )  # whatever the bytes are, they come back the same
    here: Names = {}
    new = "\n".join(_line(redactor, line, here) for line in redactor.text(text, here).split("\n"))
    spread = {} if here else _spread(redactor, new)
    if spread:
        found |= {f"{name}, which matches what a stream says in pieces: its body is withheld": None for name in spread}
        return head, None
    if not here:
        return head, body
    found |= here
    if coded:
        kept = [pair for pair in headers if pair[0] != "content-encoding"]
        head = orjson.dumps(fields | {"headers": kept}).decode()
    return head, new.encode("utf-8", "surrogateescape")


def _line(redactor: Redactor, line: str, found: Names) -> str:
    """A line of an event stream, or of one JSON text per line: in its strings."""
    start = line.find("{")
    return line if start < 0 or "\\" not in line else line[:start] + redactor.text(line[start:], found)


def _spread(redactor: Redactor, text: str) -> Names:
    """The rules that find something in what a stream says piece by piece, which none of its lines shows."""
    pieces: dict[tuple[object, ...], list[str]] = {}
    for line in text.split("\n"):
        start = line.find("{")
        try:
            event = orjson.loads(line[start:]) if start >= 0 else None
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            continue
        for path, said in _strings(event, ()):
            pieces.setdefault(path, []).append(said)
    found: Names = {}
    for spoken in pieces.values():
        if len(spoken) > 1:
            redactor.text("".join(spoken), found)
    return found


def _strings(value: object, path: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _strings(inner, (*path, place))


def _fields(head: str | None) -> dict[str, Any]:
    try:
        fields = orjson.loads(head or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}
