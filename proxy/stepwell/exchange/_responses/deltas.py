"""The output of a Responses answer put together from the events of its stream.

Each text that grows has a place in its item: `("content", 0, "text")`, `("arguments",)`, `("action", "commands", 2)`. Its pieces are
collected there and joined once, at the end. What `output_item.done` says stands; pieces fill in what it leaves empty, and everything
where it never came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.exchange._chat.messages import argument_text
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._responses.places import LISTS, PARTS, PROGRESS, TEXTS, Texts, filled

_Event = Mapping[str, Any]


class OutputDeltas:
    """`add` every event, then take the `items`."""

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._by_index: dict[int, _Item] = {}
        self._by_id: dict[str, _Item] = {}

    def add(self, kind: str, event: _Event) -> bool:
        """Add one event; False when it says nothing about the output. Raises Unparseable when it is not what the API promises."""
        name = kind.removeprefix("response.")
        subject, _, verb = name.rpartition(".")
        if name in ("output_item.added", "output_item.done"):
            self._announced(event, done=verb == "done")
        elif subject in TEXTS and verb in ("added", "delta", "done"):
            self._text(subject, verb, event)
        elif subject in PARTS and verb in ("added", "done"):
            field, index = PARTS[subject]
            kind = "reasoning" if field == "summary" else ""
            self._of(event, kind).texts.part((field, _number(event.get(index))), event.get("part"), done=verb == "done")
        elif name in LISTS:
            self._of(event, "message").texts.entry(
                ("content", _number(event.get("content_index")), "annotations"), event.get("annotation")
            )
        elif name == "shell_call_output_content.delta":
            self._shell_output(event)
        elif name == "shell_call_output_content.done":
            self._of(event, "shell_call_output").fields["output"] = event.get("output")
        elif name == "image_generation_call.partial_image":
            self._of(event, "image_generation_call").fields["partial_image_b64"] = event.get("partial_image_b64")
        else:
            return verb in PROGRESS and subject != "steer"  # which is about the conversation, and is told nowhere else
        return True

    def items(self) -> list[dict[str, Any]]:
        """The items so far, in the form of a plain answer's."""
        return [item.whole() for item in sorted(self._items, key=lambda item: item.index)]

    def _announced(self, event: _Event, *, done: bool) -> None:
        said = event.get("item")
        if not isinstance(said, Mapping):
            raise Unparseable("an event's output item is no object")
        item = self._known(said.get("id"), event.get("output_index"), opens=not done) or self._new(event, "")
        if isinstance(id_ := said.get("id"), str) and id_:
            item.id = id_
            self._by_id[id_] = item
        if done:
            item.done = dict(said)
        else:
            item.opened = True
            item.fields.update(said)

    def _text(self, subject: str, verb: str, event: _Event) -> None:
        place = TEXTS[subject]
        item = self._of(event, place.item)
        path = tuple(_number(event.get(step)) if step.endswith("_index") else step for step in place.path)
        value = event.get("delta" if verb == "delta" else place.done)
        if place.part:
            item.texts.opened(path[:-1], place.part)
            item.texts.entries((*path[:-1], "logprobs"), event.get("logprobs"), whole=verb == "done")
        if isinstance(value, Mapping) and "text" in value:  # reasoning of early servers
            value = value["text"]
        item.texts.piece(path, _written(value), whole=verb != "delta")
        if isinstance(name := event.get("name"), str) and name:
            item.fields.setdefault("name", name)

    def _shell_output(self, event: _Event) -> None:
        delta = event.get("delta")
        item = self._of(event, "shell_call_output")
        for stream, text in delta.items() if isinstance(delta, Mapping) else ():
            if isinstance(text, str):
                item.texts.piece(("output", _number(event.get("command_index")), stream), text, whole=False)

    def _of(self, event: _Event, kind: str) -> _Item:
        return self._known(event.get("item_id"), event.get("output_index")) or self._new(event, kind)

    def _known(self, id_: object, index: object, *, opens: bool = False) -> _Item | None:
        """The item of an event. Ids come first: some servers number every item 0, others name one anew in every event."""
        if isinstance(id_, str) and id_ in self._by_id:
            return self._by_id[id_]
        if type(index) is int:
            item = self._by_index.get(index)
            named = isinstance(id_, str) and id_ != ""
            if item is not None and ((named and item.done is not None) or (opens and item.opened)):
                return None
            return item
        return None if id_ or not self._items or opens else self._items[-1]

    def _new(self, event: _Event, kind: str) -> _Item:
        index, id_ = event.get("output_index"), event.get("item_id")
        item = _Item(index if type(index) is int else self._items[-1].index if self._items else 0, kind)
        self._items.append(item)
        if type(index) is int:
            self._by_index[index] = item
        if isinstance(id_, str) and id_:
            item.id = id_
            self._by_id[id_] = item
        return item


class _Item:
    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.id = ""
        self.fields: dict[str, Any] = {"type": kind} if kind else {}
        self.opened = False
        self.done: dict[str, Any] | None = None
        self.texts = Texts()

    def whole(self) -> dict[str, Any]:
        said = {**({"id": self.id} if self.id else {}), **self.fields, **(self.done or {})}
        if self.done is not None:
            said.pop("partial_image_b64", None)
        item = filled(said, self.texts.tree(), closed=self.done is not None)
        item.setdefault("type", "message")
        if item["type"] == "message":
            item.setdefault("role", "assistant")
        return dict(item)


def _number(value: object) -> int:
    return value if type(value) is int else 0


def _written(value: object) -> str:
    try:
        return argument_text(value)
    except ValueError as error:
        raise Unparseable(str(error)) from None
