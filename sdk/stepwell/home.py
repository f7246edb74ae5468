"""Where an installation keeps what belongs to the user and not to the data: its token and its certificate authority.

`~/.stepwell`, or the folder that STEPWELL_HOME names. Everything in it is private to the user (folder 0700, secrets 0600).
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from stepwell.errors import SettingsError

__all__ = ["create_token", "home_folder", "read_token"]


def home_folder() -> Path:
    """The folder, which need not exist yet."""
    return Path(os.environ.get("STEPWELL_HOME") or Path.home() / ".stepwell").expanduser().absolute()


def read_token(home: Path | None = None) -> str | None:
    """The installation's token, or None where none was made yet."""
    try:
        return ((home or home_folder()) / "token").read_text().strip() or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"cannot read the token: {error}") from error


def create_token(home: Path | None = None) -> str:
    """The installation's token, made at first use: 256 random bits in a file that only the user can read."""
    folder = home or home_folder()
    if (known := read_token(folder)) is not None:
        return known
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=folder, prefix=".token-")  # mode 0600 from the start
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        _publish(Path(scratch), folder / "token")
    except OSError as error:
        raise SettingsError(
            f"cannot make a token in {folder}: {error}; set STEPWELL_HOME to a folder you own"
        ) from error
    return read_token(folder) or ""


def _publish(scratch: Path, final: Path) -> None:
    """The first of several processes that start at once wins; the others take its token."""
    try:
        os.link(scratch, final)
    except FileExistsError:
        pass
    finally:
        scratch.unlink()
