"""The certificate authority of this installation, and the trust bundle that agents need.

One authority per installation, made here rather than by mitmproxy so that its key is private from the first byte, it lives a year,
and two processes starting at once agree on it. The file names are those mitmproxy looks for in its `confdir`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stepwell.errors import SettingsError
from stepwell.spool import ProcessLock

_log = logging.getLogger(__name__)

_KEY = "mitmproxy-ca.pem"
_CERTIFICATE = "mitmproxy-ca-cert.pem"
_LIFE = timedelta(days=365)
_RENEW = timedelta(days=14)
_LEEWAY = timedelta(days=2)
"""Clocks of agents' containers are off at times."""

_NAMED_BY = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "CODEX_CA_CERTIFICATE",
)
_PEM = re.compile(rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.+?-----END (?:TRUSTED )?CERTIFICATE-----", re.DOTALL)


def ca_folder(home: Path) -> Path:
    """Where the authority of the installation at `home` lives: mitmproxy's `confdir`."""
    return home / "ca"


def ensure_ca(home: Path) -> Path:
    """The certificate (PEM) of the installation's authority, made or renewed when need be; safe in several processes at once."""
    folder = ca_folder(home)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    with _locked(folder / "ca.lock"):
        if not _usable(folder / _KEY):
            key, certificate = _make_ca()
            _write(folder / _KEY, key + certificate)
        blocks = _PEM.findall((folder / _KEY).read_bytes())
        if _read(folder / _CERTIFICATE) != blocks[0] + b"\n":
            _write(folder / _CERTIFICATE, blocks[0] + b"\n")
    return folder / _CERTIFICATE


def trust_bundle(home: Path, extra: Sequence[Path] = (), *, environ: Mapping[str, str] | None = None) -> Path:
    """A PEM file of all an agent behind the proxy has to trust, for SSL_CERT_FILE and its like.

    Those variables *replace* a client's trust store, so the bundle holds the authorities they name in `environ` already, the public
    ones (certifi), those of the files `extra`, and our own. Its name says its content, so a bundle in use is never rewritten.

    Raises:
        SettingsError: a file of `extra` cannot be read or holds no certificate.
    """
    named = [Path(path) for name in _NAMED_BY if (path := (environ or {}).get(name))]
    return _bundle(home, [*_readable(named), *map(_required, extra), _own(ensure_ca(home))])


def upstream_bundle(home: Path, extra: Sequence[Path] = (), *, environ: Mapping[str, str] | None = None) -> Path:
    """A PEM file of what the proxy itself trusts upstream: as `trust_bundle`, without our own authority."""
    named = [Path(path) for name in _NAMED_BY if (path := (environ or {}).get(name))]
    own = _own(ensure_ca(home))
    kept = [[block for block in blocks if block not in own] for blocks in _readable(named)]
    return _bundle(home, [*kept, *map(_required, extra)])


def _bundle(home: Path, sources: Iterable[list[bytes]]) -> Path:
    public = _PEM.findall(Path(certifi.where()).read_bytes())
    blocks = dict.fromkeys(
        block.replace(b"\r\n", b"\n") for source in ([public], sources) for part in source for block in part
    )
    content = b"\n".join(blocks) + b"\n"
    path = ca_folder(home) / f"trust-{hashlib.sha256(content).hexdigest()[:16]}.pem"
    if not path.exists():
        _write(path, content)
    return path


def _own(certificate: Path) -> list[bytes]:
    return _PEM.findall(certificate.read_bytes())


def _readable(paths: Iterable[Path]) -> list[list[bytes]]:
    found = []
    for path in dict.fromkeys(paths):
        blocks = _PEM.findall(_read(path) or b"")
        if not blocks:
            _log.warning("no certificates in %s, which the environment names as a trust store; passed over", path)
        found.append(blocks)
    return found


def _required(path: Path) -> list[bytes]:
    blocks = _PEM.findall(_read(path) or b"")
    if not blocks:
        raise SettingsError(f"{path} cannot be read as a certificate authority (PEM); see the `ca` of your routes")
    return blocks


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = ProcessLock(path)
    if not lock.acquire(wait=30):
        raise SettingsError(
            f"{path} is held by another process: it seems to hang while making the certificate authority"
        )
    try:
        yield
    finally:
        lock.release()


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, readable by its owner only."""
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(scratch).replace(path)


def _usable(path: Path) -> bool:
    content = _read(path)
    if content is None:
        return False
    try:
        certificate = x509.load_pem_x509_certificate(_PEM.findall(content)[0])
        serialization.load_pem_private_key(content, None)
    except (ValueError, IndexError):
        _log.warning("%s is damaged; making a new certificate authority", path)
        return False
    return certificate.not_valid_after_utc - datetime.now(UTC) > _RENEW


def _make_ca() -> tuple[bytes, bytes]:
    """Key and certificate as PEM. P-256: a handshake costs a tenth of what it costs with RSA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([
        x509.NameAttribute(NameOID.COMMON_NAME, f"Stepwell {socket.gethostname()}"[:64]),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Stepwell (local capture)"),
    ])  # fmt: skip
    now = datetime.now(UTC)
    usage = dict.fromkeys(
        [
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ],
        False,
    )
    certificate = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LEEWAY)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=False, key_cert_sign=True, crl_sign=True, **usage), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)
