"""One step: rendered, checked, encoded, and told apart into prompt and response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from stepwell.reader._arrays import I32, Bools, offsets_of
from stepwell.reader._realise.check import OLD_REASONING, not_rendered
from stepwell.reader._realise.encode import Encoded, Encoder
from stepwell.reader._realise.messages import answer_message, chat_messages
from stepwell.reader._realise.needs import Refused
from stepwell.reader._realise.template import ChatTemplate, Rendered
from stepwell.reader._realise.tools import chat_tools

APART = "prompt and response were encoded apart"
"""Because a token of the whole would have stood on both sides: what an engine does as well, which never sees the answer's text."""

ACROSS = "a token that is generated in part does not train"

WITHOUT_IDS = ("no token ids", "the engine gave no token ids")
"""Why the warehouse calls a step untrainable when nothing else is wrong with it than what is made good here."""


@dataclass(frozen=True, slots=True)
class Realised:
    prompt: I32
    response: I32
    mask: Bools
    """[response] What is generated: the first and the last always are."""
    media: tuple[tuple[int, str], ...]
    """Place in the prompt, and content hash."""
    notes: tuple[str, ...]
    """What was left out or done otherwise, in words."""


@dataclass(frozen=True)
class Maker:
    encoder: Encoder
    template: ChatTemplate
    placeholders: Mapping[str, int]
    """By kind of media, the id that stands for one."""
    unrendered: str

    def make(self, row: Mapping[str, Any]) -> Realised:
        """A step, of `messages`, `tools`, `response` (JSON texts or None), `status` and `untrainable_reason`.

        Raises:
            Refused: it cannot be realised.
        """
        if row["status"] != "ok":
            raise Refused(f"the answer is not whole ({row['status']}), and a chat template would end it")
        why = row["untrainable_reason"]
        if why is not None and why not in WITHOUT_IDS:  # its prompt is not whole, or was redacted
            raise Refused(f"not trainable: {why}")
        if row["messages"] is None or row["response"] is None:
            raise Refused("no messages, or no answer")
        said, hashes = chat_messages(orjson.loads(row["messages"]), self.placeholders)
        tools = chat_tools(orjson.loads(row["tools"]) if row["tools"] else None)
        whole = [*said, answer_message(orjson.loads(row["response"]))]
        missing = not_rendered(self.template, whole, tools)
        if self.unrendered == "refuse" and (lost := [what for what in missing if what != OLD_REASONING]):
            raise Refused(f"the chat template leaves out: {', '.join(lost)}")
        before = self.template.render(said, tools, add_generation_prompt=True)
        after = self.template.render(whole, tools, add_generation_prompt=False)
        prompt, response, start, notes = self._cut(before.text, after.text)
        mask, across = self._mask(response, after, start)
        if not mask.any():
            raise Refused("nothing of the answer is generated, by the chat template's marks")
        media = self._media(prompt.ids, hashes)
        # What a template writes before and after an answer is context, as it is where an engine samples: of this prompt, or of the next.
        first, last = np.flatnonzero(mask)[[0, -1]].tolist()
        context, answer = np.append(prompt.ids, response.ids[:first]), slice(first, last + 1)
        notes = [*(f"left out: {what}" for what in missing), *notes, *([ACROSS] if across else [])]
        return Realised(context, response.ids[answer], mask[answer], media, tuple(notes))

    def _cut(self, before: str, after: str) -> tuple[Encoded, Encoded, int, list[str]]:
        """Prompt and response, and where in the whole text the response's characters are counted from."""
        if not after.startswith(before) or len(after) == len(before):
            raise Refused("the rendered prompt is not what the conversation with the answer begins with")
        prompt, whole = self.encoder.encode(before), self.encoder.encode(after)
        count = len(prompt.ids)
        if not count:
            raise Refused("the rendered prompt has no tokens")
        if np.array_equal(whole.ids[:count], prompt.ids):
            return prompt, Encoded(whole.ids[count:], whole.begin[count:], whole.end[count:]), 0, []
        return prompt, self.encoder.encode(after[len(before) :]), len(before), [APART]

    def _mask(self, response: Encoded, whole: Rendered, start: int) -> tuple[Bools, bool]:
        """[response] Tokens that lie whole within what is generated; and whether others have a part of it."""
        generated = np.zeros(len(whole.text), np.bool_)
        for first, last in self._spans(whole):
            generated[first:last] = True
        before, begin, end = offsets_of(generated), response.begin + start, response.end + start
        covered = before[end] - before[begin]
        inside: Bools = (covered > 0) & (covered == end - begin)
        return inside, bool(((covered > 0) & ~inside).any())

    def _spans(self, whole: Rendered) -> list[tuple[int, int]]:
        """Without marks: all that follows the prompt, until the token that ends an answer, where that is known."""
        if self.template.marks:
            return list(whole.generated)
        end = self.template.variables.get("eos_token")
        place = whole.text.rfind(end) if isinstance(end, str) and end else -1
        return [(0, len(whole.text) if place < 0 else place + len(str(end)))]

    def _media(self, prompt: I32, hashes: list[str]) -> tuple[tuple[int, str], ...]:
        places = np.flatnonzero(np.isin(prompt, list(self.placeholders.values()))).tolist()
        if len(places) != len(hashes):
            raise Refused("not one placeholder in the prompt for each of its media")
        return tuple(zip(places, hashes, strict=True))
