"""`Realiser`: a table of steps with text in, a table with token ids out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, get_args

import pyarrow as pa

from stepwell.errors import InvalidRecord
from stepwell.reader._realise.encode import Encoder
from stepwell.reader._realise.needs import Refused
from stepwell.reader._realise.step import Maker, Realised
from stepwell.reader._realise.template import ChatTemplate

Loss = Literal["sft", "dpo", "rl"]
Derived = Literal["refuse", "allow"]
Unrendered = Literal["refuse", "count"]

_NEEDED = ("step_id", "messages", "tools", "response", "status", "untrainable_reason")
_SCHEMA = pa.schema(
    [
        pa.field("step_id", pa.string()),
        pa.field("prompt_ids", pa.large_list(pa.int32())),
        pa.field("response_ids", pa.large_list(pa.int32())),
        pa.field("mask", pa.large_list(pa.bool_())),
        pa.field("media", pa.list_(pa.struct([("position", pa.int32()), ("hash", pa.string())]))),
        pa.field("source", pa.string()),
        pa.field("fingerprint", pa.string()),
        pa.field("notes", pa.list_(pa.string())),
        pa.field("reason", pa.string()),
    ]
)


class Realiser:
    """Realises steps that have only text, with one tokenizer and one chat template.

        realiser = Realiser(TokenizersEncoder("qwen/tokenizer.json"), ChatTemplate(source, eos_token="<|im_end|>"))
        columns = "step_id, messages, tools, response, status, untrainable_reason"
        table = realiser.realise(warehouse.query(f"SELECT {columns} FROM steps WHERE …"))

    The ids are *derived*: a model would not have sampled just these for the same text. They are welcome for SFT and DPO, and refused for
    RL losses, whose ratios and credit are about what was sampled.
    """

    def __init__(
        self,
        encoder: Encoder,
        template: ChatTemplate,
        *,
        placeholders: Mapping[str, str] | None = None,
        unrendered: Unrendered = "refuse",
    ) -> None:
        """
        Args:
            placeholders: By kind of media (`image`, `audio`, `file`), the text that the template writes for one, a single token
                (`{"image": "<|image_pad|>"}`). Kinds without one are refused. What a processor makes of it is for the trainer.
            unrendered: What the template leaves out makes the step refused, or is counted in `notes`. Reasoning of earlier turns, which
                templates leave out on purpose, is always counted.

        Raises:
            InvalidRecord: a placeholder is not one token of the tokenizer; no such choice.
        """
        if unrendered not in get_args(Unrendered):
            raise InvalidRecord("unrendered", f"{unrendered!r} is not one of {', '.join(get_args(Unrendered))}")
        ids = {kind: _single(encoder, kind, text) for kind, text in (placeholders or {}).items()}
        self._maker = Maker(encoder, template, ids, unrendered)
        self.source = f"tokenizer:{encoder.name}"
        """As steps say where their ids come from."""
        self.fingerprint = hashlib.sha256(encoder.identity + template.identity).hexdigest()
        """Of the tokenizer and the template with its variables: ids of others are never merged with these."""

    def __repr__(self) -> str:
        return f"Realiser({self.source}, fingerprint {self.fingerprint})"

    def realise(self, steps: pa.Table, *, loss: Loss = "sft", derived: Derived = "refuse") -> pa.Table:
        """
        Args:
            steps: step_id, messages, tools, response, status, untrainable_reason, as the view `steps` has them; other columns are
                not looked at.
            loss: What the ids are for.
            derived: `"allow"`: an RL loss over derived ids is what is wanted.

        Returns:
            A row for each step, in their order: step_id; prompt_ids, response_ids and mask (bool per response id: what is generated);
            media (position in the prompt and content hash of each placeholder); source, fingerprint; notes (what was left out, in
            words); reason. Where a step cannot be realised, `reason` says why and the rest is null.

        Raises:
            InvalidRecord: a column is missing; the loss is an RL loss, and `derived` does not allow it.
        """
        if loss not in get_args(Loss):
            raise InvalidRecord("loss", f"{loss!r} is not one of {', '.join(get_args(Loss))}")
        if loss == "rl" and derived != "allow":
            why = "ids that a tokenizer made were not sampled, and an RL loss is about what was"
            raise InvalidRecord("derived", f"{why}; train with SFT or DPO, or say derived='allow'")
        if missing := [name for name in _NEEDED if name not in steps.column_names]:
            raise InvalidRecord("steps", f"the column {missing[0]} is missing; select {', '.join(_NEEDED)}")
        rows = [self._row(row) for batch in steps.select(_NEEDED).to_batches() for row in batch.to_pylist()]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def _row(self, step: dict[str, Any]) -> dict[str, Any]:
        try:
            made = self._maker.make(step)
        except Refused as refused:
            return {"step_id": step["step_id"], "reason": str(refused)}
        return {"step_id": step["step_id"], "source": self.source, "fingerprint": self.fingerprint, **_columns(made)}


def realised_counts(table: pa.Table) -> dict[str, int]:
    """Of what `Realiser.realise` gave: steps by reason and by note, most first; `realised`: those that have ids."""
    counts = Counter(reason or "realised" for reason in table["reason"].to_pylist())
    counts.update(note for notes in table["notes"].to_pylist() for note in notes or ())
    return dict(counts.most_common())


def _columns(made: Realised) -> dict[str, Any]:
    return {
        "prompt_ids": made.prompt,
        "response_ids": made.response,
        "mask": made.mask,
        "media": [{"position": place, "hash": digest} for place, digest in made.media],
        "notes": list(made.notes),
    }


def _single(encoder: Encoder, kind: str, text: str) -> int:
    ids = encoder.encode(text).ids
    if len(ids) != 1:
        raise InvalidRecord("placeholders", f"{text!r} for {kind} is {len(ids)} tokens of {encoder.name}, not one")
    return int(ids[0])
