"""`stepwell ca`: the certificate that agents must trust, never the key."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stepwell.cli import _options as options
from stepwell.errors import SettingsError


def ca(
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write the certificate to FILE instead of printing it"),
    ] = None,
    path: Annotated[
        bool, typer.Option("--path", help="Print where the certificate file is instead of its contents")
    ] = False,
    config: options.Config = None,
) -> None:
    """Print the certificate of the proxy's certificate authority (PEM).

    `stepwell run` makes agents trust it by itself. An agent started otherwise needs it in its environment, beside
    `HTTPS_PROXY=http://127.0.0.1:8789`:

    `SSL_CERT_FILE=… REQUESTS_CA_BUNDLE=…` (most of Python), `NODE_EXTRA_CA_CERTS=… NODE_USE_ENV_PROXY=1` (Node),
    `CURL_CA_BUNDLE=…`, `GIT_SSL_CAINFO=…`, each naming the file that `stepwell ca --path` prints.

    In a container image: `stepwell ca > /usr/local/share/ca-certificates/stepwell.crt && update-ca-certificates`.

    The authority belongs to this installation (STEPWELL_HOME, else ~/.stepwell); its key is never printed or exported.
    """
    from stepwell.cli._installation import installation
    from stepwell.cli._settings import load_settings

    certificate = installation(load_settings(config).proxy).certificate
    if path:
        print(certificate)  # noqa: T201
    elif export is None:
        sys.stdout.write(certificate.read_text())
    else:
        _export(certificate, export)


def _export(certificate: Path, target: Path) -> None:
    try:
        target.write_bytes(certificate.read_bytes())
    except OSError as error:
        raise SettingsError(f"cannot write the certificate to {target}: {error.strerror}") from error
