"""A dataset as a file that needs no Stepwell to read, with a data card that says what it is.

Beside `math.parquet` come `math.peers.parquet` (the rewarded trajectories of the same groups that were not selected, where there are any),
`math.card.json`, and the same in words, `math.card.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import orjson
import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.warehouse._datasets.datasets import Datasets
from stepwell.warehouse._datasets.origin import origin

Format = Literal["parquet", "arrow"]


class _Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def export(
    datasets: Datasets, name: str, version: int | None, path: Path, format: Format = "parquet"
) -> dict[str, Any]:
    """Write a dataset, whole prompts and all, to `path`; its data card. A file is there when it is whole.

    Raises:
        StoreError: there is no such dataset, what is stored is not what was frozen, or a file cannot be written.
    """
    dataset = datasets.get(name, version)
    steps, peers = datasets.stream(name, dataset.version), datasets.peers(name, dataset.version)
    card = {
        **datasets.lineage(name, dataset.version),
        **{key: getattr(dataset, key) for key in ("fingerprint", "note", "created_at")},
        "columns": {field.name: str(field.type) for field in steps.schema},
    }
    counts = _Counts()
    try:
        with _written(path) as part:
            _write(part, format, steps.schema, counts.counted(steps))
        files = [path]
        if peers.num_rows:
            files.append(path.with_suffix(f".peers{path.suffix}"))
            with _written(files[-1]) as part:
                _write(part, format, peers.schema, peers.to_batches())
        card |= {**counts.card, "files": {file.name: _sha256(file) for file in files}}
        with _written(path.with_suffix(".card.json")) as part:
            part.write_bytes(orjson.dumps(card, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        with _written(path.with_suffix(".card.md")) as part:
            part.write_text(_in_words(card), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {error.filename or path}: {error.strerror or error}") from error
    return card


class _Counts:
    """What is summed up while batches go by."""

    def __init__(self) -> None:
        self.card: dict[str, Any] = {"prompt_tokens": 0, "response_tokens": 0, "trajectory_reward": None}
        self._rewards: dict[str, float] = {}

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for column, total in (("prompt_ids", "prompt_tokens"), ("response_ids", "response_tokens")):
                self.card[total] += len(batch[column].flatten())
            pairs = zip(batch["trajectory_id"].to_pylist(), batch["trajectory_reward"].to_pylist(), strict=True)
            self._rewards |= {trajectory: reward for trajectory, reward in pairs if reward is not None}
            yield batch
        if values := list(self._rewards.values()):
            mean = sum(values) / len(values)
            self.card["trajectory_reward"] = {
                "trajectories": len(values),
                "mean": mean,
                "min": min(values),
                "max": max(values),
            }


def _write(path: Path, format: Format, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with path.open("wb") as file:
        writer = _writer(file, format, schema)
        try:
            for batch in batches:
                writer.write_batch(batch)
        finally:
            writer.close()


def _writer(file: Any, format: Format, schema: pa.Schema) -> _Writer:
    if format == "arrow":
        writer: _Writer = pa.ipc.new_file(file, schema)
        return writer
    import pyarrow.parquet as pq

    parquet: _Writer = pq.ParquetWriter(file, schema, compression="zstd")
    return parquet


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    """Where to write what becomes `path` when it is whole."""
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _in_words(card: dict[str, Any]) -> str:
    reward = card["trajectory_reward"]
    lines = [
        f"# {card['dataset']}",
        *([f"\n{card['note']}"] if card["note"] else []),
        f"\n{card['steps']} steps of {card['trajectories']} trajectories in {card['groups']} groups: "
        f"{card['prompt_tokens']} prompt tokens, {card['response_tokens']} response tokens.",
        "",
        *origin(card),
    ]
    if reward:
        lines.append(
            f"- Reward of {reward['trajectories']} trajectories: mean {reward['mean']:.6g}, "
            f"from {reward['min']:.6g} to {reward['max']:.6g}"
        )
    lines += [f"- Fingerprint: `{card['fingerprint']}`", f"- Made: {card['created_at']:%Y-%m-%d %H:%M:%S} UTC\n"]
    lines += [
        "| file | SHA-256 |",
        "|---|---|",
        *(f"| {name} | `{digest}` |" for name, digest in card["files"].items()),
    ]
    lines += ["\n| column | type |", "|---|---|", *(f"| {name} | {kind} |" for name, kind in card["columns"].items())]
    return "\n".join(lines) + "\n"
