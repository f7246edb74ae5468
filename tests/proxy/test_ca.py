"""The installation's authority and the trust bundles."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi
import pytest
from cryptography import x509

from stepwell.errors import SettingsError
from stepwell.proxy import _ca, ensure_ca, trust_bundle
from stepwell.testing import ThrowawayCA


def _count(path: Path) -> int:
    return len(re.findall("BEGIN CERTIFICATE", path.read_text()))


def test_the_key_is_private_and_the_authority_lives_a_year(tmp_path: Path) -> None:
    certificate = ensure_ca(tmp_path)
    key = certificate.parent / "mitmproxy-ca.pem"
    assert certificate.parent.stat().st_mode & 0o777 == 0o700
    assert key.stat().st_mode & 0o777 == 0o600
    assert "PRIVATE KEY" in key.read_text()
    assert "PRIVATE KEY" not in certificate.read_text()
    loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    life = loaded.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=360) < life <= timedelta(days=365)
    assert "Stepwell" in loaded.subject.rfc4514_string()


def test_it_stays_the_same(tmp_path: Path) -> None:
    first = ensure_ca(tmp_path).read_bytes()
    assert ensure_ca(tmp_path).read_bytes() == first


@pytest.mark.parametrize("damage", ["", "not a key", None])
def test_a_damaged_one_is_made_anew(tmp_path: Path, damage: str | None) -> None:
    certificate = ensure_ca(tmp_path)
    first = certificate.read_bytes()
    key = certificate.parent / "mitmproxy-ca.pem"
    if damage is None:
        key.unlink()
    else:
        key.write_text(damage)
    assert ensure_ca(tmp_path).read_bytes() != first


def test_one_that_is_about_to_expire_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ca, "_LIFE", timedelta(days=13))
    first = ensure_ca(tmp_path).read_bytes()
    monkeypatch.undo()
    assert ensure_ca(tmp_path).read_bytes() != first


def test_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    code = "import sys, pathlib; from stepwell.proxy import ensure_ca; print(ensure_ca(pathlib.Path(sys.argv[1])).read_text())"
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    told = {process.communicate(timeout=60)[0] for process in started}
    assert len(told) == 1 and "BEGIN CERTIFICATE" in told.pop()


def test_the_bundle_holds_public_own_named_and_extra_authorities(tmp_path: Path) -> None:
    named, extra = tmp_path / "named.pem", tmp_path / "extra.pem"
    named.write_bytes(ThrowawayCA("named").pem)
    extra.write_bytes(ThrowawayCA("extra").pem)
    public = _count(Path(certifi.where()))
    assert _count(trust_bundle(tmp_path)) == public + 1
    bundle = trust_bundle(tmp_path, [extra], environ={"SSL_CERT_FILE": str(named), "NODE_EXTRA_CA_CERTS": str(named)})
    assert _count(bundle) == public + 3
    ssl.create_default_context(cafile=str(bundle))
    # Inside a `stepwell run` the environment names such a bundle already.
    assert trust_bundle(tmp_path, environ={"SSL_CERT_FILE": str(bundle)}) == bundle


def test_the_proxy_does_not_trust_its_own_authority_upstream(tmp_path: Path) -> None:
    own = ensure_ca(tmp_path).read_text().strip()
    nested = trust_bundle(tmp_path)
    assert own in nested.read_text()
    assert own not in _ca.upstream_bundle(tmp_path, environ={"SSL_CERT_FILE": str(nested)}).read_text()


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    assert trust_bundle(tmp_path, environ={"SSL_CERT_FILE": str(tmp_path / "absent")}) == trust_bundle(tmp_path)
    with pytest.raises(SettingsError, match=r"absent.* routes"):
        trust_bundle(tmp_path, [tmp_path / "absent"])
