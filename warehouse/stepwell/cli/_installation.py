"""What belongs to the user's installation rather than to a data folder: token and certificate authority."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.errors import SettingsError
from stepwell.home import create_token, home_folder

if TYPE_CHECKING:
    from stepwell.proxy import ProxyConfig


@dataclass(frozen=True)
class Installation:
    """The folder (`~/.stepwell` or STEPWELL_HOME), and the certificate in it that agents must trust."""

    home: Path
    certificate: Path


def installation(proxy: ProxyConfig | None = None) -> Installation:
    """The user's installation; token and certificate authority are made when they are missing, the latter for `proxy`'s hosts.

    Raises:
        SettingsError: the folder cannot be used.
        MissingExtra: the packages of the proxy are not installed.
    """
    from stepwell.proxy import ensure_ca

    home = home_folder()
    create_token(home)
    try:
        return Installation(home, ensure_ca(home, proxy))
    except OSError as error:
        raise SettingsError(
            f"cannot use {home}: {error.strerror or error}; set STEPWELL_HOME to a folder you own"
        ) from error
