"""Models on Bedrock that complete a prompt: Llama, Mistral, Titan, Cohere's first, DeepSeek, AI21's first, Claude's first.

They differ in the names of the same few things. An answer is one text, or a list of them; a stream is a row of such answers, each with
the next piece of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwell.exchange._canonical import Part
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Asked, Choice
from stepwell.exchange._media import media_part
from stepwell.sdk.records import Step

LENGTH = frozenset({"length", "max_tokens", "model_length"})
"""Reasons, in lower case, that mean a limit of length."""

PROMPTS = ("prompt", "inputText")
"""Under which name a request has its prompt."""

FORM = "form"
"""Where a step's extra says which of the forms its bodies had."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How one family says its answer. Without `choices`, the answer's own fields are those of its only choice."""

    text: str
    reason: str
    choices: str | None = None
    usage: tuple[str, ...] = ()


_FORMS = {
    "generation": _Form("generation", "stop_reason", usage=("prompt_token_count", "generation_token_count")),
    "completion": _Form("completion", "stop_reason"),
    "outputs": _Form("text", "stop_reason", "outputs"),
    "results": _Form("outputText", "completionReason", "results", ("inputTextTokenCount", "totalOutputTextTokenCount")),
    "generations": _Form("text", "finish_reason", "generations"),
    "choices": _Form("text", "stop_reason", "choices", ("usage",)),
    "completions": _Form("text", "reason", "completions"),
}
"""By the field that gives a form away."""

_STREAMED = {"outputText": "results", "text": "generations", "is_finished": "generations"}
"""Fields that only the pieces of a stream have at their root, and the form that the plain answer has."""


def asked_from(body: Mapping[str, Any], model: str | None) -> Asked:
    """A prompt as one message of the user's, with the images that belong to it. Raises Unparseable when there is none."""
    name = next((name for name in PROMPTS if isinstance(body.get(name), str)), None)
    if name is None:
        raise Unparseable("the request has neither messages nor a prompt")
    images = body.get("images")
    pictures = images if isinstance(images, list) and all(isinstance(image, str) for image in images) else []
    content: list[Part] = [{"type": "text", "text": body[name]}]
    content += [media_part("image", {"data": image}, image) for image in pictures]
    known = {name, "stream", *(["images"] if pictures else [])}
    extra = {"stream": body["stream"]} if "stream" in body else {}
    return Asked(
        [{"role": "user", "content": content}],
        sampling={key: value for key, value in body.items() if key not in known},
        model=model,
        extra={**extra, FORM: name},
    )


def request_of(step: Step) -> dict[str, Any]:
    """The body that `asked_from` read."""
    extra = dict((step.extra or {}).get("request") or {})
    name = extra.pop(FORM, PROMPTS[0])
    (message,) = step.messages or [{"content": []}]
    prompt = "".join(part["text"] for part in message["content"] if part["type"] == "text")
    images = [part["extra"]["data"] for part in message["content"] if part["type"] == "image"]
    return {name: prompt, **({"images": images} if images else {}), **(step.sampling or {}), **extra}


@dataclass(slots=True)
class _Said:
    """One choice, as its pieces come."""

    texts: list[str] = field(default_factory=list)
    reason: Any = None
    rest: dict[str, Any] = field(default_factory=dict)


def form_of(value: Mapping[str, Any]) -> str | None:
    """The form of an answer or of a piece of one; None when it has none of them."""
    name = next((name for name in _FORMS if name in value), None)
    return name or next((form for name, form in _STREAMED.items() if name in value), None)


def answer_from(values: Iterable[Mapping[str, Any]], whole: bool = True) -> Answer:
    """One answer, or the pieces of a stream, put together; of one that ended early, those up to the first that cannot be read.

    Raises:
        Unparseable: it is of no known form, or all of it came (`whole`) and a piece is not what that form has.
    """
    said: dict[int, _Said] = {}
    root: dict[str, Any] = {}
    form: str | None = None
    for value in values:
        form = form or form_of(value)
        if form is None:
            raise Unparseable(f"the response is of no known form: it has {sorted(value)[:6]}")
        try:
            _add(_FORMS[form], form, value, said, root)
        except Unparseable:
            if whole:
                raise
            break
    if form is None:
        return Answer()
    usage = {key: root.pop(key) for key in _FORMS[form].usage if key in root}
    named = usage.pop("usage", None)
    return Answer(
        choices=[_choice(index, said[index]) for index in sorted(said)],
        response_id=root.pop("id", None),
        usage=named if isinstance(named, dict) else usage or None,
        extra={**root, FORM: form},
    )


def _add(form: _Form, name: str, value: Mapping[str, Any], said: dict[int, _Said], root: dict[str, Any]) -> None:
    """Add an answer, or a piece of one, whose choices are in a list or are itself."""
    if form.choices is None or form.choices not in value:
        inner = dict(value)
        shared = {key: inner.pop(key) for key in form.usage if key in inner}
        pieces: Any = [inner]
    else:
        shared = {key: inner for key, inner in value.items() if key != form.choices}
        pieces = value[form.choices]
    root.update({key: inner for key, inner in shared.items() if inner is not None})
    if not isinstance(pieces, list) or not all(isinstance(piece, Mapping) for piece in pieces):
        raise Unparseable(f"the response's {form.choices} is no list of objects")
    for place, piece in enumerate(pieces):
        index = piece.get("index")
        one = said.setdefault(index if type(index) is int else place, _Said())
        _add_piece(form, _flat(piece) if name == "completions" else piece, one)


def _flat(piece: Mapping[str, Any]) -> Mapping[str, Any]:
    """AI21's choice: its text and its reason are one level further down."""
    data, reason = piece.get("data"), piece.get("finishReason")
    text = data.get("text") if isinstance(data, Mapping) else None
    why = reason.get("reason") if isinstance(reason, Mapping) else None
    return {**piece, "text": text, "reason": why}


def _add_piece(form: _Form, piece: Mapping[str, Any], said: _Said) -> None:
    for key, value in piece.items():
        if value is None or key == "index":
            continue
        if key == form.text and isinstance(value, str):
            said.texts.append(value)
        elif key == form.reason:
            said.reason = value
        elif isinstance(value, list) and isinstance(known := said.rest.get(key), list):
            known.extend(value)
        else:
            said.rest[key] = list(value) if isinstance(value, list) else value  # ours, so that it can be extended


def _choice(index: int, said: _Said) -> Choice:
    text, reason = "".join(said.texts), said.reason
    word = reason.lower() if isinstance(reason, str) else ""
    return Choice(
        {"role": "assistant", "content": [{"type": "text", "text": text}] if text else []},
        index=index,
        finish_reason=reason,
        cut=word in LENGTH,
        failed=word.startswith("error"),
        extra=said.rest,
    )


def answer_of(steps: Sequence[Step]) -> dict[str, Any]:
    """The plain body of the answer that the steps came from."""
    first = dict((steps[0].extra or {}).get("response") or {})
    name = first.pop(FORM)
    form = _FORMS[name]
    usage = steps[0].usage or {}
    root = {**first, **({"usage": usage} if usage and "usage" in form.usage else usage)}
    pieces = [_piece(form, name, step) for step in steps]
    if form.choices is None:
        return {**pieces[0], **root}
    identified = {"id": steps[0].response_id} if steps[0].response_id else {}
    return {**identified, **root, form.choices: pieces}


def _piece(form: _Form, name: str, step: Step) -> dict[str, Any]:
    rest = dict((step.extra or {}).get("choice") or {})
    text = "".join(part["text"] for part in (step.response or {}).get("content", []))
    if name == "completions":
        return rest
    return {**rest, form.text: text, form.reason: step.finish_reason}
