"""What `stepwell doctor` sees without asking any process: folders, secrets, certificate, environment, clients."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stepwell.cli._bypass import NODE_ENOUGH, excepted, node_gap, node_version
from stepwell.cli._finding import Finding, bad, ok, warn
from stepwell.cli._settings import Settings
from stepwell.errors import MissingExtra, SettingsError
from stepwell.home import home_folder

_FEW_BYTES, _NO_BYTES = 2 << 30, 256 << 20
_SOON = timedelta(days=14)
_REMOTE = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "ceph",
    "glusterfs",
    "lustre",
    "afs",
    "gpfs",
    "fuse.sshfs",
    "fuse.s3fs",
    "fuse.gcsfuse",
)
_MADE_BY_UP = "not made yet; the first `stepwell up` makes it"


def local_findings(settings: Settings) -> Iterator[Finding]:
    """In the order in which they would stop somebody."""
    yield from data_folder(settings.data)
    home = home_folder()
    yield token(home)
    yield certificate(home)
    yield environment(settings)
    yield node()


def data_folder(data: Path) -> Iterator[Finding]:
    """Whether spools can be kept there."""
    there = next(folder for folder in (data, *data.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield bad(
            "data", f"{there} is no folder that you can write to", "set `data` to a local folder you own (--data)"
        )
        return
    kind = filesystem(there)
    if kind is not None and kind.startswith(_REMOTE):
        yield bad("data", f"{data} is on a network file system ({kind}), where SQLite is not safe", "use a local disk")
    else:
        yield ok("data", f"{data} is writable" if there == data else f"{data} can be made")
    free = shutil.disk_usage(there).free
    words = f"{free / (1 << 30):.1f} GiB free"
    if free < _NO_BYTES:
        yield bad("space", words, "make room: a full disk loses calls")
    else:
        yield warn("space", words, "make room soon") if free < _FEW_BYTES else ok("space", words)


def filesystem(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """The type of the file system that holds `path`; None where the system does not say (not on Linux)."""
    try:
        lines = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
    except OSError:
        return None
    real = path.resolve()
    places = {
        line[1].replace("\\040", " "): line[2] for line in lines if len(line) > 2
    }  # the later mount hides the earlier
    return next((places[str(folder)] for folder in (real, *real.parents) if str(folder) in places), None)


def token(home: Path) -> Finding:
    """The installation's token, of which nobody else may know."""
    path = home / "token"
    try:
        mode = path.stat().st_mode & 0o777
        empty = not path.read_text().strip()
    except FileNotFoundError:
        return warn("token", _MADE_BY_UP)
    except OSError as error:
        return bad("token", f"{path} cannot be read: {error.strerror}", "set STEPWELL_HOME to a folder you own")
    if empty:
        return bad("token", f"{path} is empty", f"remove it: rm {path}")
    if mode & 0o077:
        return bad("token", f"others may read {path} (mode {mode:o})", f"chmod 600 {path}")
    return ok("token", f"{path}, yours alone")


def certificate(home: Path) -> Finding:
    """The authority whose certificates agents must trust."""
    try:
        from stepwell.proxy import look_at_ca

        found = look_at_ca(home)
    except MissingExtra as error:
        return bad("certificate", str(error))
    except SettingsError as error:
        return bad("certificate", str(error), f"remove {home / 'ca'}: a new one is made")
    if found is None:
        return warn("certificate", _MADE_BY_UP)
    if found.key_mode & 0o077:
        key = found.certificate.with_name("mitmproxy-ca.pem")
        return bad("certificate", f"others may read its key (mode {found.key_mode:o})", f"chmod 600 {key}")
    left = found.expires - datetime.now(UTC)
    if left < _SOON:
        return (bad if left < timedelta(0) else warn)(
            "certificate", f"expires on {found.expires:%Y-%m-%d}", "restart `stepwell up`: it is made anew"
        )
    limit = "for any host" if found.names is None else f"for {len(found.names)} names and what is below them"
    return ok("certificate", f"valid until {found.expires:%Y-%m-%d}, {limit}")


def environment(settings: Settings) -> Finding:
    """What `stepwell run` would set, and what in the environment works against it."""
    proxy = settings.proxy
    if items := excepted(os.environ, [*proxy.hosts, *(route.host for route in proxy.routes)]):
        return warn(
            "environment", f"NO_PROXY={','.join(items)} keeps calls of agents from the proxy", "take it out of NO_PROXY"
        )
    shown = f"HTTPS_PROXY=http://<trajectory>:<token>@{proxy.host}:{proxy.run_port}"
    rest = "SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, NODE_EXTRA_CA_CERTS, …"
    return ok("environment", f"`stepwell run` sets {shown}, and the certificates in {rest}")


def node() -> Finding:
    """Whether the Node on PATH heeds the proxy."""
    found = shutil.which("node")
    version = node_version(Path(found)) if found else None
    if version is None:
        return ok("clients", "no Node on PATH that would ignore the proxy")
    if gap := node_gap(version):
        return warn(
            "clients",
            f"Node {version} ({found}) {gap}: what agents on it send so is not captured",
            f"use Node {NODE_ENOUGH}, or give them a base URL",
        )
    return ok("clients", f"Node {version} heeds HTTPS_PROXY")
