"""`stepwell copy`: a warehouse from one store to another."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli import _options as options
from stepwell.errors import SettingsError

if TYPE_CHECKING:
    from stepwell.cli._store import StoreConfig


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A warehouse: a folder or s3://bucket/prefix")],
    target: Annotated[str, typer.Argument(metavar="TO", help="An empty place, or an earlier copy of it")],
    from_profile: Annotated[
        str | None,
        typer.Option("--from-profile", metavar="NAME", help="AWS profile for FROM", show_default="$AWS_PROFILE"),
    ] = None,
    to_profile: Annotated[
        str | None, typer.Option("--to-profile", metavar="NAME", help="AWS profile for TO", show_default="$AWS_PROFILE")
    ] = None,
    from_endpoint: Annotated[
        str | None,
        typer.Option("--from-endpoint", metavar="URL", help="Server of FROM", show_default="[store] endpoint"),
    ] = None,
    to_endpoint: Annotated[
        str | None, typer.Option("--to-endpoint", metavar="URL", help="Server of TO", show_default="[store] endpoint")
    ] = None,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove from TO what FROM does not have any more; always done after a `forget`"),
    ] = False,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Copy a warehouse, or what is new in it since it was copied last.

    FROM may be written meanwhile: what is copied is one of its versions, whole. TO may be read meanwhile, and must not be written. A copy
    that is interrupted goes on where it ended when it is run again. Spools are no part of a warehouse and stay where they are.

    Example: `stepwell copy stepwell-data/warehouse s3://backups/stepwell --to-profile backup`
    """
    from stepwell.cli._settings import load_settings

    store = load_settings(config).store
    ends = (_end(source, store, from_profile, from_endpoint), _end(target, store, to_profile, to_endpoint))
    from stepwell.warehouse import Copy

    done = Copy(*ends, prune=prune, say=lambda text: print(f"stepwell: {text}", file=sys.stderr)).run()  # noqa: T201
    if as_json:
        print(json.dumps(asdict(done)))  # noqa: T201
    else:
        removed = f", {done.removed} removed" if done.removed else ""
        print(f"{done.files} files ({done.bytes} bytes) copied, {done.there} there already{removed}")  # noqa: T201


def _end(uri: str, store: StoreConfig, profile: str | None, endpoint: str | None) -> tuple[str, dict[str, str]]:
    if "://" not in uri:
        return str(Path(uri).expanduser().absolute()), {}
    if not uri.startswith("s3://"):
        raise SettingsError(f"{uri} is neither a folder nor s3://bucket/prefix")
    given = store if endpoint is None else store.model_copy(update={"endpoint": endpoint, "region": None})
    return uri, given.storage_options() | ({"aws_profile": profile} if profile else {})
