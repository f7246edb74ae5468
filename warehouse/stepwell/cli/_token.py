"""`stepwell token`: who may talk to the gateway, and do what."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli._options import Json
from stepwell.errors import SettingsError

if TYPE_CHECKING:
    from stepwell.gateway import Scope, Token, Tokens

app = typer.Typer(no_args_is_help=True, help="Tokens for the gateway, with scopes: make, list and revoke them.")

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST = 100 * 365 * 86_400


@app.command()
def create(
    scope: Annotated[
        list[str],
        typer.Option(
            *("--scope", "-s"),
            metavar="SCOPE",
            help="What it is for, again for each: `ingest` submits, `read` reads, `curate` judges and selects, `admin` does all",
        ),
    ],
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="Stamped on what is submitted with it")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="TIME", help="How long it is good: 12h, 90d, 8w", show_default="until it is revoked"
        ),
    ] = None,
    note: Annotated[str | None, typer.Option("--note", metavar="TEXT", help="Whose it is")] = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it. It is shown this once; only its hash is kept.

    Example: `stepwell token create --scope ingest --project shop --expires 90d`
    """
    seconds = None if expires is None else _seconds(expires)
    shown, token = _tokens().create([_scope(name) for name in scope], project=project, note=note, seconds=seconds)
    if as_json:
        _say_json({"token": shown, **_entry(token)})
        return
    sys.stdout.write(shown + "\n")
    until = "until it is revoked" if token.expires_at is None else f"until {_time(token.expires_at)}"
    sys.stderr.write(f"token {token.id}: good for {', '.join(sorted(token.scopes))} {until}; it is not shown again\n")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """The tokens, without their secrets. The last use is kept to the hour."""
    entries = [_entry(token) for token in _tokens().all()]
    if as_json:
        _say_json(entries)
        return
    import pyarrow as pa

    from stepwell.cli._result import write

    names = ("id", "scopes", "project", "note", "created_at", "expires_at", "used_at")
    rows = [{**entry, "scopes": " ".join(entry["scopes"])} for entry in entries]
    write(
        pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in names}),
        "table",
        sys.stdout.buffer,
    )
    sys.stdout.buffer.flush()


@app.command()
def revoke(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="As `stepwell token list` shows them")],
) -> None:
    """Have a token refused from now on. A running gateway knows within seconds."""
    tokens = _tokens()
    for id_ in ids:
        tokens.revoke(id_)
        sys.stdout.write(f"revoked {id_}\n")


def _tokens() -> Tokens:
    from stepwell.gateway import Tokens
    from stepwell.home import home_folder

    return Tokens(home_folder())


def _scope(name: str) -> Scope:
    """Raises SettingsError for what is none."""
    from stepwell.gateway import SCOPES

    scopes: dict[str, Scope] = {scope: scope for scope in SCOPES}
    if name not in scopes:
        raise SettingsError(f"--scope {name!r}: is none of {', '.join(SCOPES)}")
    return scopes[name]


def _seconds(text: str) -> int:
    """Raises SettingsError for what is no time."""
    found = re.fullmatch(r"([0-9]{1,9})([mhdw])", text.strip())
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST:
        raise SettingsError(f"--expires {text!r}: give a number and m, h, d or w, as in 90d; at most a hundred years")
    return seconds


def _entry(token: Token) -> dict[str, Any]:
    times = {name: getattr(token, name) for name in ("created_at", "expires_at", "used_at")}
    said = {"id": token.id, "scopes": sorted(token.scopes), "project": token.project, "note": token.note}
    return {**said, **{name: None if at is None else _time(at) for name, at in times.items()}}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _say_json(value: object) -> None:
    import orjson

    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
