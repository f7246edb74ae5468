"""The dataset card of an export: front matter that `datasets.load_dataset` goes by, and the same in words for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stepwell.reader._export.columns import meaning
from stepwell.reader._export.files import Format, pattern
from stepwell.reader._modes import Merge

_ROW = {
    "tree": "a pack of trees in which every shared prefix is computed once; attention is by `subtree_end`",
    "trajectory": "a sequence of steps of one trajectory, each of which strictly extends the one before",
    "none": "one step",
}


@dataclass(frozen=True)
class Facts:
    """What a card says."""

    lineage: Mapping[str, Any]
    """As `Datasets.lineage` gives it, with fingerprint and note."""
    settings: Mapping[str, Any]
    """Of the reader."""
    merge: Merge
    to: Format
    schema: pa.Schema
    counts: Mapping[str, int]
    """rows, steps, tokens, terms, bytes."""
    not_here: Mapping[str, int]
    """Steps of the dataset that are not in the export, by reason."""
    derived: int
    """Steps whose ids a tokenizer made from text."""
    notes: Mapping[str, int]
    """Of those that were realised for this, by what was left out or done otherwise."""
    files: Mapping[str, str | None]
    """SHA-256 by name."""


def card(facts: Facts) -> str:
    """Markdown behind YAML front matter, as the hub's dataset cards are written."""
    return "\n".join([*_front_matter(facts), *_words(facts)]) + "\n"


def _front_matter(facts: Facts) -> Iterable[str]:
    size = facts.counts["bytes"]
    return [
        "---",
        f"pretty_name: {_quoted(facts.lineage['dataset'])}",
        *("tags:", "- stepwell", "- agents", "- reinforcement-learning"),
        *("configs:", "- config_name: default", "  data_files:", "  - split: train"),
        f"    path: {_quoted(pattern(facts.to))}",
        *("dataset_info:", "  features:"),
        *(line for field in facts.schema for line in _feature(field)),
        *("  splits:", "  - name: train", f"    num_bytes: {size}", f"    num_examples: {facts.counts['rows']}"),
        f"  dataset_size: {size}",
        "---",
    ]


def _feature(field: pa.Field) -> Iterable[str]:
    of_list = pa.types.is_list(field.type)
    name = _DTYPES[field.type.value_type if of_list else field.type]
    return [f"  - name: {field.name}", f"    {'list' if of_list else 'dtype'}: {name}"]


_DTYPES = {
    pa.string(): "string",
    pa.bool_(): "bool",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float32",
    pa.float64(): "float64",
}


def _words(facts: Facts) -> Iterable[str]:
    from stepwell.warehouse import origin  # trainers import the reader, and none of what stores

    lineage, counts = facts.lineage, facts.counts
    note = [f"\n{lineage['note']}"] if lineage["note"] else []
    return [
        f"\n# {lineage['dataset']}",
        *note,
        f"\n{counts['rows']} rows, {counts['steps']} steps, {counts['terms']} loss terms, {counts['tokens']} tokens. "
        f"A row is {_ROW[facts.merge]}.",
        f"\n```python\n{_loading(facts.to)}\n```",
        "\n## Where it comes from\n",
        *origin(lineage),
        f"- Fingerprint of the dataset: `{lineage['fingerprint']}`",
        "\n## How it was made\n",
        *(f"- `{name}`: `{value}`" for name, value in facts.settings.items()),
        *_derived(facts),
        *_left_out(facts),
        "\n## Columns\n\n| column | type | |\n|---|---|---|",
        *(f"| `{field.name}` | {field.type} | {meaning(field.name)} |" for field in facts.schema),
        "\n## Files\n\n| file | SHA-256 |\n|---|---|",
        *(f"| {name} | {f'`{digest}`' if digest else ''} |" for name, digest in facts.files.items()),
    ]


def _derived(facts: Facts) -> Iterable[str]:
    """Nobody is to take them for what a model sampled."""
    if not facts.derived:
        return []
    notes = [f"- {count}: {note}" for note, count in facts.notes.items()]
    return [
        f"\nSteps whose ids a tokenizer made from their text, and no model sampled: {facts.derived}.",
        *(["\nOf those that were realised for this export:\n", *notes] if notes else []),
    ]


def _left_out(facts: Facts) -> Iterable[str]:
    """Nothing is missing without a word."""
    lines = [f"- {count}: {reason}" for reason, count in facts.not_here.items()]
    return ["\nSteps of the dataset that are not here:\n", *lines] if lines else []


def _loading(to: Format) -> str:
    plain = 'from datasets import load_dataset\n\nrows = load_dataset("<this folder>", split="train")'
    return f'{plain}\n# or lance.dataset("<this folder>/data/train.lance")' if to == "lance" else plain


def _quoted(text: str) -> str:
    """A YAML string in double quotes, which JSON's are where all characters are printable, as those of a dataset's name."""
    return json.dumps(text, ensure_ascii=False)
