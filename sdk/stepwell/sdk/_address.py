"""The address of a gateway."""

from __future__ import annotations

from urllib.parse import urlsplit

from stepwell.errors import SettingsError

__all__ = ["DEFAULT_URL", "address"]

DEFAULT_URL = "http://127.0.0.1:8787"


def address(url: str) -> str:
    """`scheme://host[:port][/path]` without a trailing slash; credentials have their own setting and would end in logs."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (ValueError, AttributeError):
        raise _no_address(url) from None
    if not known or parts.query or parts.fragment:
        raise _no_address(url)
    if parts.username is not None:
        raise SettingsError("the gateway's address must not carry credentials: give the token on its own")
    return url.rstrip("/")


def _no_address(url: object) -> SettingsError:
    return SettingsError(f"{url!r} is no address of a gateway: give something like {DEFAULT_URL}")
