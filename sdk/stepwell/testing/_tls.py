"""A throw-away certificate authority: made for one run, trusted by nobody else, its key never written to disk."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A day on each side: a machine whose clock is off still runs its tests, and a leaked certificate is worth nothing.
_LEEWAY = timedelta(days=1)


class ThrowawayCA:
    """A certificate authority on EC P-256, its certificates in the strict form that Python 3.13 verifies (RFC 5280)."""

    def __init__(self, common_name: str = "Stepwell throw-away CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        usage = _key_usage(certificate_authority=True)
        builder = _builder(name, name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """The authority's certificate, for a client's `SSL_CERT_FILE`."""
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(self, names: Sequence[str]) -> tuple[bytes, bytes]:
        """A server certificate for host names and IP addresses: its PEM and its key's PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(names[0]), self.certificate.subject, key.public_key())
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(certificate_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(authority, critical=False)
            .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM), private


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _LEEWAY).not_valid_after(now + _LEEWAY)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _key_usage(*, certificate_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=certificate_authority,
        crl_sign=certificate_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
