"""`stepwell dataset`: frozen selections of steps, listed, made, compared, exported and deleted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stepwell.cli._options import At, Config, Data, Json, Warehouse

if TYPE_CHECKING:
    import pyarrow as pa

    from stepwell.warehouse import Dataset, Datasets

app = typer.Typer(no_args_is_help=True, help="Frozen, versioned selections of steps: make, compare and export them.")

Reference = Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="A dataset; without a version its newest")]


@app.command("list")
def list_(as_json: Json = False, config: Config = None, data: Data = None, warehouse: Warehouse = None) -> None:
    """Every version of every dataset."""
    _listed(_datasets(config, data, warehouse).list(), as_json)


@app.command()
def show(
    dataset: Reference, as_json: Json = False, config: Config = None, data: Data = None, warehouse: Warehouse = None
) -> None:
    """One version: its entry in the registry and where it comes from."""
    datasets = _datasets(config, data, warehouse)
    name, version = _reference(dataset)
    found = datasets.get(name, version)
    _facts({**_entry(found), **datasets.lineage(name, found.version)}, as_json)


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The dataset's name; this becomes its next version")],
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            help="Which steps: a condition over the view `steps`",
            show_default="trainable AND split = 'train' AND NOT side",
        ),
    ] = None,
    note: Annotated[str | None, typer.Option("--note", metavar="TEXT", help="What it is for")] = None,
    at: At = None,
    pin: Annotated[bool, typer.Option("--pin", help="Keep today's files, too, for readers with plain LanceDB")] = False,
    as_json: Json = False,
    config: Config = None,
    data: Data = None,
    warehouse: Warehouse = None,
) -> None:
    """Freeze a selection with the rewards and labels that it has now.

    Example: `stepwell dataset create math --where "trajectory_reward > 0 and policy_version >= 3"`
    """
    selected: dict[str, Any] = {} if where is None else {"where": where}
    made = _datasets(config, data, warehouse).create(name, **selected, note=note, pin=pin, at=at)
    _facts(_entry(made), as_json)


@app.command()
def diff(
    before: Reference,
    after: Reference,
    as_json: Json = False,
    config: Config = None,
    data: Data = None,
    warehouse: Warehouse = None,
) -> None:
    """The steps that were added, removed, or have other rewards or labels."""
    _table(_datasets(config, data, warehouse).diff(before, after), as_json)


@app.command()
def lineage(
    dataset: Reference, as_json: Json = False, config: Config = None, data: Data = None, warehouse: Warehouse = None
) -> None:
    """Where a version comes from: commit, filter, policies, models, sources, other datasets."""
    _facts(_datasets(config, data, warehouse).lineage(*_reference(dataset)), as_json)


@app.command()
def delete(
    dataset: Annotated[str, typer.Argument(metavar="NAME@VERSION", help="The version to delete")],
    force: Annotated[bool, typer.Option("--force", help="Also when it is pinned")] = False,
    config: Config = None,
    data: Data = None,
    warehouse: Warehouse = None,
) -> None:
    """Delete a version: its entry, its rows and its pins. The steps stay, and its number is not given again."""
    from stepwell.errors import SettingsError

    name, version = _reference(dataset)
    if version is None:
        raise SettingsError(f"which version of {name}? Deleting takes {name}@VERSION")
    _datasets(config, data, warehouse).delete(name, version, force=force)
    sys.stdout.write(f"deleted {name}@{version}\n")


@app.command()
def export(
    dataset: Reference,
    output: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; its data card is put beside it")],
    format: Annotated[
        Literal["parquet", "arrow"] | None,
        typer.Option("--format", "-f", help="How to write it", show_default="by the file's name, else parquet"),
    ] = None,
    as_json: Json = False,
    config: Config = None,
    data: Data = None,
    warehouse: Warehouse = None,
) -> None:
    """Write a version with whole prompts to a file that needs no Stepwell to read, checked against what was frozen."""
    datasets = _datasets(config, data, warehouse)
    from stepwell.warehouse import export as write

    name, version = _reference(dataset)
    guessed: Literal["parquet", "arrow"] = "arrow" if output.suffix in (".arrow", ".feather") else "parquet"
    card = write(datasets, name, version, output, format or guessed)
    if as_json:
        _facts(card, as_json)
    else:
        sys.stdout.write(f"{card['steps']} steps of {card['dataset']} in {', '.join(card['files'])}\n")


def _datasets(config: Path | None, data: Path | None, warehouse: str | None) -> Datasets:
    from stepwell.cli._opened import opened
    from stepwell.cli._settings import load_settings

    return opened(load_settings(config, data=data, warehouse=warehouse)).datasets


def _reference(text: str) -> tuple[str, int | None]:
    from stepwell.warehouse import reference

    return reference(text)


def _entry(dataset: Dataset) -> dict[str, Any]:
    from dataclasses import asdict

    return {"dataset": dataset.label, **asdict(dataset)}


def _listed(found: list[Dataset], as_json: bool) -> None:
    import pyarrow as pa

    names = ("name", "version", "steps", "at_commit", "pinned", "created_at", "filter", "note")
    shown = [_entry(item) if as_json else {name: getattr(item, name) for name in names} for item in found]
    _table(pa.Table.from_pylist(shown) if shown else pa.table({name: [] for name in names}), as_json)


def _table(table: pa.Table, as_json: bool) -> None:
    from stepwell.cli._result import write

    write(table, "json" if as_json else "table", sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _facts(facts: dict[str, Any], as_json: bool) -> None:
    """Names and values: one object, or one per line."""
    import orjson

    if as_json:
        sys.stdout.write(orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        sys.stdout.write(f"{name:{width}}  {_printable(shown)}".rstrip() + "\n")


def _printable(text: str) -> str:
    """In one line, and without what would steer the reader's terminal."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
