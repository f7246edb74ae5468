"""The certificate authority of this installation.

One authority per installation, made here rather than by mitmproxy so that its key is private from the first byte, it lives a year,
and two processes starting at once agree on it. The file names are those mitmproxy looks for in its `confdir`.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stepwell.errors import SettingsError
from stepwell.proxy._ca_names import constraint, fits, names_of, permitted_names, together
from stepwell.proxy._config import ProxyConfig
from stepwell.spool import ProcessLock

_log = logging.getLogger(__name__)

_KEY = "mitmproxy-ca.pem"
_CERTIFICATE = "mitmproxy-ca-cert.pem"
_LIFE = timedelta(days=365)
_RENEW = timedelta(days=14)
_LEEWAY = timedelta(days=2)
"""Clocks of agents' containers are off at times."""

PEM = re.compile(rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.+?-----END (?:TRUSTED )?CERTIFICATE-----", re.DOTALL)


def ca_folder(home: Path) -> Path:
    """Where the authority of the installation at `home` lives: mitmproxy's `confdir`."""
    return home / "ca"


def ensure_ca(home: Path, config: ProxyConfig | None = None, *, adapt: bool = False) -> Path:
    """The certificate (PEM) of the installation's authority, made or renewed when need be; safe in several processes at once.

    `config` says which hosts a new one is made for (None: for any). With `adapt` one that is there is made to fit as well: its
    certificate is issued again, with the same key, so that what trusts the old one goes on working for the hosts of the old one.
    """
    folder = ca_folder(home)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    with _locked(folder / "ca.lock"):
        names = permitted_names(config) if config else None
        known = _loaded(folder / _KEY)
        if known is None:
            write_whole(folder / _KEY, _issued(ec.generate_private_key(ec.SECP256R1()), names))
        elif adapt and not fits(has := names_of(known[1]), names):
            names = together(has, names) if names is not None else None
            write_whole(folder / _KEY, _issued(known[0], names))
            _log.warning(
                "the certificate authority's certificate has changed: it now permits %s; where a copy of it was installed "
                "(`stepwell ca`), install it again",
                "any host" if names is None else f"{len(names)} names and what is below them",
            )
        blocks = PEM.findall((folder / _KEY).read_bytes())
        if read_file(folder / _CERTIFICATE) != blocks[0] + b"\n":
            write_whole(folder / _CERTIFICATE, blocks[0] + b"\n")
    return folder / _CERTIFICATE


def read_file(path: Path) -> bytes | None:
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


def write_whole(path: Path, content: bytes) -> None:
    """Whole or not at all, readable by its owner only."""
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(scratch).replace(path)


def _loaded(path: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None:
    """Key and certificate; None when a new authority is needed."""
    content = read_file(path)
    if content is None:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(PEM.findall(content)[0])
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, IndexError):
        key, certificate = None, None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate is None:
        _log.warning("%s is damaged; making a new certificate authority", path)
        return None
    return (key, certificate) if certificate.not_valid_after_utc - datetime.now(UTC) > _RENEW else None


@dataclass(frozen=True)
class Authority:
    """The authority as it is, for those who only look."""

    certificate: Path
    expires: datetime
    key_mode: int
    """Permissions of the file with the key."""
    names: frozenset[str] | None
    """What it permits; None: any host."""


def look_at_ca(home: Path) -> Authority | None:
    """The installation's authority; None when none was made yet.

    Raises:
        SettingsError: it cannot be read, or is damaged.
    """
    key, certificate = ca_folder(home) / _KEY, ca_folder(home) / _CERTIFICATE
    if not key.exists():
        return None
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
        if PEM.findall(key.read_bytes()) != PEM.findall(certificate.read_bytes()):
            raise SettingsError(f"{certificate} is not the certificate of {key}")
        return Authority(certificate, loaded.not_valid_after_utc, key.stat().st_mode & 0o777, names_of(loaded))
    except (OSError, ValueError) as error:
        raise SettingsError(f"the certificate authority in {key.parent} cannot be read: {error}") from error


def _issued(key: ec.EllipticCurvePrivateKey, names: frozenset[str] | None) -> bytes:
    """Key and certificate as PEM, in one. P-256: a handshake costs a tenth of what it costs with RSA."""
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
    builder = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LEEWAY)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=False, key_cert_sign=True, crl_sign=True, **usage), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(constraint(names), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
