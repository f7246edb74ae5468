"""What an engine's own API gives: outputs with their tokens, whole, in a list, or as events.

SGLang: `{text, output_ids, meta_info}`, or a list of these; streamed, each event has everything so far, unless the server was
started to send only what is new. llama.cpp: `{content, tokens, stop, …}`, streamed in pieces. vLLM: `{choices: [{token_ids, …}]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from stepwell.exchange._body import is_whole, loosely, partial_body, partial_event
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._raw import Response, header
from stepwell.exchange._sse import Event, looks_like_events, parse_events

TEXTS = ("text", "content")
_LISTS = ("output_ids", "tokens", "completion_probabilities", "token_ids")
_SAYS = frozenset({*TEXTS, *_LISTS})
_WORDLESS = "an error event without a word"
_META_LISTS = ("output_token_logprobs", "output_top_logprobs", "output_token_ids_logprobs")


@dataclass(slots=True)
class Outputs:
    """The outputs by their index, in the fields of the engine; whether they are all there; an error if there was one."""

    items: dict[int, dict[str, Any]] = field(default_factory=dict)
    root: dict[str, Any] = field(default_factory=dict)
    terminated: bool = False
    error: Any = None


def read_outputs(response: Response) -> Outputs:
    """The outputs in a decoded response. What ended early gives what there was.

    Raises:
        Unparseable: it ended as it should, and is nothing that an engine gives.
    """
    body, whole = response.body, is_whole(response)
    if response.status is None or (not body.strip() and not whole):
        return Outputs()
    if response.status >= 400:
        return Outputs(terminated=whole, error=loosely(body))
    if looks_like_events(header(response.headers, "content-type"), body) and body.lstrip()[:1] not in (b"{", b"["):
        return _streamed(body, whole)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Outputs(root=partial_body(body, whole, error))
    return _plain(value)


def _plain(value: object) -> Outputs:
    if isinstance(value, dict) and value.get("error"):
        return Outputs(terminated=True, error=value["error"])
    root: dict[str, Any] = {}
    items = value if isinstance(value, list) else [value]
    if isinstance(value, dict) and isinstance(value.get("choices"), list):
        items, root = value["choices"], {key: inner for key, inner in value.items() if key != "choices"}
    if not items:
        raise Unparseable("the response holds no output")
    return Outputs(dict(enumerate(_output(item) for item in items)), root, terminated=True)


def _output(item: object) -> dict[str, Any]:
    if not isinstance(item, dict) or _SAYS.isdisjoint(item):
        raise Unparseable("an output has neither text nor tokens")
    return item


def _streamed(body: bytes, whole: bool) -> Outputs:
    outputs, runs, done = Outputs(), dict[int, _Run](), False
    for event in parse_events(body):
        if event.data.strip() == b"[DONE]":
            done = True
            break
        try:
            value = _value(event, whole)
            if value is None:
                break  # cut in the middle of the event
            if value.get("error"):
                outputs.error = value["error"]
            else:
                _add_event(outputs, runs, value)
        except Unparseable:
            if whole:
                raise
            break  # what came before stands
    if whole and not runs and outputs.error is None:
        raise Unparseable("the event stream holds no output")
    outputs.items = {index: run.whole() for index, run in runs.items()}
    ended = [ends(item) for item in outputs.items.values()]
    outputs.terminated = done or bool(ended and all(ended))
    return outputs


def _value(event: Event, whole: bool) -> dict[str, Any] | None:
    """The event's object; an event that calls itself an error is one, whatever it says. None when it was cut in the middle."""
    try:
        value = orjson.loads(event.data)
    except orjson.JSONDecodeError as error:
        said = partial_event(event, whole, error)
        return said and {"error": said["error"] or _WORDLESS}
    if event.type == b"error" and not (isinstance(value, dict) and value.get("error")):
        return {"error": value or _WORDLESS}
    if not isinstance(value, dict):
        raise Unparseable("an event of the stream is no JSON object")
    return value


def _add_event(outputs: Outputs, runs: dict[int, _Run], value: dict[str, Any]) -> None:
    choices = value.get("choices")
    if isinstance(choices, list):
        outputs.root |= {key: inner for key, inner in value.items() if key != "choices" and inner is not None}
    for place, item in enumerate(choices if isinstance(choices, list) else [value]):
        output = _output(item)
        index = output.get("index")
        index = index if type(index) is int else place
        if index not in runs:
            runs[index] = _Run()
        runs[index].add(output)


def ends(item: Mapping[str, Any]) -> bool:
    """Whether the engine says that an output ends here."""
    return bool(item.get("stop") or item.get("finish_reason") or meta_of(item).get("finish_reason"))


def meta_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = item.get("meta_info")
    return meta if isinstance(meta, Mapping) else {}


class _Run:
    """The pieces of one output. Only what grows is kept of each: a long stream is not held a second time as objects."""

    def __init__(self) -> None:
        self._count = 0
        self._last: dict[str, Any] = {}
        self._fields: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {name: [] for name in TEXTS}
        self._lists: dict[str, list[Any]] = {name: [] for name in (*_LISTS, *_META_LISTS, "logprobs")}
        self._text, self._grows = "", True

    def add(self, item: dict[str, Any]) -> None:
        self._count, self._last = self._count + 1, item
        for key, value in item.items():
            if value is None:
                continue
            self._fields[key] = value
            if key in _LISTS:
                self._lists[key].extend(_listed(value))
            elif key in TEXTS and isinstance(value, str):
                self._texts[key].append(value)
            elif key == "logprobs":
                self._lists[key].extend(_content(value))
        for name in _META_LISTS if "meta_info" in item else ():
            self._lists[name].extend(_listed(meta_of(item).get(name)))
        text, before = item.get("text"), self._text
        self._text = text if isinstance(text, str) else ""
        self._grows = self._grows and self._text.startswith(before)

    def whole(self) -> dict[str, Any]:
        """The output so far, in the form of a plain one."""
        if self._count == 1 or self._is_cumulative():
            return self._last
        whole = dict(self._fields)
        whole |= {name: "".join(texts) for name, texts in self._texts.items() if name in whole}
        whole |= {name: self._lists[name] for name in _LISTS if name in whole}
        if logprobs := self._lists["logprobs"]:
            whole["logprobs"] = {"content": logprobs}
        if meta := dict(meta_of(whole)):
            whole["meta_info"] = {**meta, **{name: self._of_all(name) for name in _META_LISTS if name in meta}}
        return whole

    def _of_all(self, name: str) -> list[Any]:
        """A list of SGLang's `meta_info`: servers that send new text only have sent these whole, or new ones only, by version."""
        meta = meta_of(self._last)
        last = _listed(meta.get(name))
        return last if len(last) == meta.get("completion_tokens") else self._lists[name]

    def _is_cumulative(self) -> bool:
        """Whether each of SGLang's events has everything so far. Its count of tokens says so; without ids, the texts do."""
        meta, ids = meta_of(self._last), self._last.get("output_ids")
        if meta and isinstance(ids, list) and type(count := meta.get("completion_tokens")) is int:
            return len(ids) == count
        return bool(meta) and self._grows


def _content(logprobs: object) -> list[Any]:
    return _listed(logprobs.get("content")) if isinstance(logprobs, Mapping) else []


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
