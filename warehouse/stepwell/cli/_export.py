"""`stepwell export`: a dataset as a trainer takes it, in a folder that `datasets.load_dataset` reads."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stepwell.cli import _options as options

if TYPE_CHECKING:
    from stepwell.reader import Exported

_Advantage = Literal["none", "grpo", "rloo", "reinforce", "reinforce++", "reinforce++-baseline", "step"]
_Loss = Literal["token-mean", "sequence-mean", "trajectory-mean", "dr-grpo"]


def export(
    dataset: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="The dataset; without a version its newest")],
    to: Annotated[Literal["parquet", "jsonl", "lance"], typer.Option("--to", help="Kind of files")] = "parquet",
    merge: Annotated[
        Literal["tree", "trajectory", "none"],
        typer.Option("--merge", help="A row is a pack of prefix trees, a sequence of a trajectory's steps, or a step"),
    ] = "trajectory",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder to make", show_default="./NAME-VERSION")
    ] = None,
    advantage: Annotated[_Advantage, typer.Option("--advantage", help="Estimator of advantages")] = "none",
    loss: Annotated[
        _Loss, typer.Option("--loss", help="How `weight` averages an optimizer step's loss")
    ] = "token-mean",
    groups_per_step: Annotated[
        int,
        typer.Option("--groups-per-step", min=1, help="Prompt groups of an optimizer step, held in memory at a time"),
    ] = 64,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Most tokens of a pack or a step")] = 65_536,
    on_drift: Annotated[
        Literal["fork", "realign", "drop"],
        typer.Option("--on-drift", help="Steps that do not go on where their parent ended"),
    ] = "fork",
    logprobs: Annotated[
        bool | None,
        typer.Option(
            "--logprobs/--no-logprobs",
            help="Require those of sampling, or leave them out",
            show_default="with advantages all steps, if one has them",
        ),
    ] = None,
    derived: Annotated[bool, typer.Option("--derived", help="Also token ids that a tokenizer made from text")] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            metavar="FILE",
            help="Make ids for steps that have only text: a tokenizer.json, or tiktoken:MODEL",
        ),
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option("--template", metavar="FILE", help="… with this chat template: Jinja, or a tokenizer_config.json"),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--template-variable", metavar="NAME=VALUE", help="… that is given this, such as eos_token"),
    ] = None,
    placeholders: Annotated[
        list[str] | None,
        typer.Option("--placeholder", metavar="KIND=TEXT", help="… that writes this for an image, audio or file"),
    ] = None,
    unended: Annotated[
        bool, typer.Option("--unended", help="Trajectories that nobody ended count as complete")
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out and count what is wrong, instead of refusing")
    ] = False,
    as_json: options.Json = False,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Write a dataset as a trainer takes it: ids, masks, logprobs, advantages, with a dataset card.

    Example: `stepwell export math@3 --to parquet --merge trajectory --advantage grpo`. Texts and everything else that was stored:
    `stepwell dataset export`.
    """
    from stepwell.cli._opened import opened
    from stepwell.cli._settings import load_settings

    house = opened(load_settings(config, data=data, warehouse=warehouse))
    from stepwell.cli._realiser import realiser_of
    from stepwell.reader import export_dataset
    from stepwell.warehouse import reference

    found = house.datasets.get(*reference(dataset))
    realiser = realiser_of(tokenizer, template, variables or (), placeholders or ())
    more: dict[str, Any] = {} if realiser is None else {"realise": realiser}
    done = export_dataset(
        *(house, found.name, found.version, out or Path(_folder(found.name, found.version))),
        to=to,
        merge=merge,
        advantage=advantage,
        groups_per_step=groups_per_step,
        loss=loss,
        max_tokens=max_tokens,
        on_drift=on_drift,
        old_logprobs=logprobs,
        derived=derived,
        **more,
        unended=unended,
        on_error="skip" if skip else "raise",
    )
    sys.stdout.write(_as_json(done) if as_json else _in_words(done))


def _folder(name: str, version: int) -> str:
    """A dataset's name may have characters that a folder's had better not have."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name).lstrip('.')}-{version}"


def _as_json(done: Exported) -> str:
    import json
    from dataclasses import asdict

    return json.dumps({**asdict(done), "path": str(done.path)}, indent=2) + "\n"


def _in_words(done: Exported) -> str:
    lines = [
        f"{done.rows} rows of {done.dataset} in {done.path}: {done.steps} steps, {done.terms} loss terms, {done.tokens} tokens",
        *(f"not there: {count} steps, {reason}" for reason, count in done.not_here.items()),
    ]
    return "\n".join(lines) + "\n"
