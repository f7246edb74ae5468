"""Trust bundles: files of all the authorities that an agent behind the proxy, or the proxy itself, has to trust."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import certifi

from stepwell.errors import SettingsError
from stepwell.proxy._ca import PEM, ca_folder, ensure_ca, read_file, write_whole

_log = logging.getLogger(__name__)

_KEEP = timedelta(days=30)
"""How long a bundle stays that nobody is given any more."""

_NAMED_BY = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "CODEX_CA_CERTIFICATE",
)


def trust_bundle(home: Path, extra: Sequence[Path] = (), *, environ: Mapping[str, str] | None = None) -> Path:
    """A PEM file of all an agent behind the proxy has to trust, for SSL_CERT_FILE and its like.

    Those variables *replace* a client's trust store, so the bundle holds the authorities they name in `environ` already, the public
    ones (certifi), those of the files `extra`, and our own. Its name says its content, so a bundle in use is never rewritten.

    Raises:
        SettingsError: a file of `extra` cannot be read or holds no certificate.
    """
    bundle = _bundle(home, "trust", [*_named(environ or {}), *map(_required, extra), _own(ensure_ca(home))])
    _remove_old(bundle)
    return bundle


def upstream_bundle(home: Path, extra: Sequence[Path] = (), *, environ: Mapping[str, str] | None = None) -> Path:
    """A PEM file of what the proxy itself trusts upstream: as `trust_bundle`, without our own authority."""
    own = _own(ensure_ca(home))
    kept = [[block for block in blocks if block not in own] for blocks in _named(environ or {})]
    return _bundle(home, "upstream", [*kept, *map(_required, extra)])


def _bundle(home: Path, kind: str, sources: Iterable[list[bytes]]) -> Path:
    public = PEM.findall(Path(certifi.where()).read_bytes())
    blocks = dict.fromkeys(
        block.replace(b"\r\n", b"\n") for source in ([public], sources) for part in source for block in part
    )
    content = b"\n".join(blocks) + b"\n"
    path = ca_folder(home) / f"{kind}-{hashlib.sha256(content).hexdigest()[:16]}.pem"
    try:
        os.utime(path)  # in use now
    except FileNotFoundError:
        write_whole(path, content)
    return path


def _remove_old(current: Path) -> None:
    """The bundles that no agent was given for a month. Not those of the proxy, which reads its own for as long as it runs."""
    oldest = time.time() - _KEEP.total_seconds()
    for path in current.parent.glob("trust-*.pem"):
        try:
            if path != current and path.stat().st_mtime < oldest:
                path.unlink()
        except OSError:  # another process was faster
            continue


def _own(certificate: Path) -> list[bytes]:
    return PEM.findall(certificate.read_bytes())


def _named(environ: Mapping[str, str]) -> list[list[bytes]]:
    """The certificates of the trust stores that the environment names, by file."""
    found = []
    for path in dict.fromkeys(Path(named) for name in _NAMED_BY if (named := environ.get(name))):
        blocks = PEM.findall(read_file(path) or b"")
        if not blocks:
            _log.warning("no certificates in %s, which the environment names as a trust store; passed over", path)
        found.append(blocks)
    return found


def _required(path: Path) -> list[bytes]:
    blocks = PEM.findall(read_file(path) or b"")
    if not blocks:
        raise SettingsError(f"{path} cannot be read as a certificate authority (PEM); see the `ca` of your routes")
    return blocks
