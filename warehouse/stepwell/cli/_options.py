"""Options that several commands share, with one wording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings file",
        show_default="$STEPWELL_CONFIG, else ./stepwell.toml if there",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder of spools, locks and the local warehouse",
        show_default="./stepwell-data",
    ),
]
Warehouse = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        metavar="URI",
        help="Where the tables are: a folder or s3://bucket/prefix",
        show_default="DATA/warehouse",
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="VERSION",
        help="The state at a commit's number, at a dataset (`name@2`) or at a time (ISO 8601; UTC if it names no zone)",
        show_default="the newest",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON")]
Supervised = Annotated[
    bool,
    typer.Option(
        "--supervised",
        hidden=True,
        help="Started by `stepwell up`: say on stdout when ready, and end when stdin does (the supervisor is gone then)",
    ),
]
