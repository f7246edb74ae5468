"""`stepwell dashboard`: where the dashboard is, and a browser that is signed in to it."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from stepwell.cli import _options as options

_ANYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - a look at the setting, nothing is bound


def dashboard(
    config: options.Config = None,
    data: options.Data = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Port of the gateway, if it is not as set")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser")] = False,
) -> None:
    """Print the address of the dashboard, which signs in whoever opens it: treat it as a password.

    The token is in the fragment, which browsers keep to themselves. `--open` hands the browser an address that is good once instead, so
    that the token stands in no process list.
    """
    from stepwell.cli._settings import load_settings
    from stepwell.errors import SettingsError
    from stepwell.home import home_folder, read_token

    settings = load_settings(config, data=data, gateway={"port": port})
    host = "127.0.0.1" if settings.gateway.host in _ANYWHERE else settings.gateway.host
    check(host, settings.gateway.port)
    token = read_token()
    if token is None:
        raise SettingsError(
            f"there is no token in {home_folder()}: was the gateway started with another STEPWELL_HOME?"
        )
    address = address_of(settings.gateway.port, token, host)
    if not open_:
        sys.stdout.write(address + "\n")
        return
    from stepwell.cli._hand_over import hand_over

    hand_over(address)


def address_of(port: int, token: str, host: str = "127.0.0.1") -> str:
    """The address of the dashboard that signs in."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/#token={token}"


def shown_address(port: int) -> str:
    """The address, which signs in; but what is no terminal may be a log, where no token belongs."""
    from stepwell.home import read_token

    token = read_token() if sys.stdout.isatty() else None
    return (
        address_of(port, token) if token else f"http://127.0.0.1:{port}/  (`stepwell dashboard --port {port}` signs in)"
    )


def check(host: str, port: int) -> None:
    """Raises SettingsError where no gateway answers."""
    import http.client

    from stepwell.errors import SettingsError

    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/api/v1/health")
        answer = connection.getresponse()
        known = answer.status == 200 and json.loads(answer.read(1 << 20)).get("status") == "ok"
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        known = False
    finally:
        connection.close()
    if not known:
        raise SettingsError(f"no gateway answers on {host}:{port}; start it with `stepwell up`, or name its --port")
