"""The installation's authority."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from stepwell.errors import SettingsError
from stepwell.proxy import ProxyConfig, _ca, ensure_ca, look_at_ca


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


def config(*hosts: str, **more: Any) -> ProxyConfig:
    return ProxyConfig(hosts=hosts, **more)


def test_it_is_made_for_the_hosts_of_the_settings(tmp_path: Path) -> None:
    ensure_ca(tmp_path, config("api.openai.com", "*.openai.azure.com"))
    found = look_at_ca(tmp_path)
    assert found is not None and found.names == frozenset({"api.openai.com", "openai.azure.com"})
    assert found.key_mode == 0o600
    loaded = x509.load_pem_x509_certificate(found.certificate.read_bytes())
    assert loaded.extensions.get_extension_for_class(x509.NameConstraints).critical


def test_it_stays_while_what_it_permits_is_enough(tmp_path: Path) -> None:
    first = ensure_ca(tmp_path, config("openai.com")).read_bytes()
    assert ensure_ca(tmp_path, config("api.openai.com"), adapt=True).read_bytes() == first
    assert ensure_ca(tmp_path, config("llm.example")).read_bytes() == first  # whoever only uses it changes nothing


def test_more_hosts_are_a_new_certificate_of_the_same_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = x509.load_pem_x509_certificate(ensure_ca(tmp_path, config("api.openai.com")).read_bytes())
    ensure_ca(tmp_path, config("llm.example"), adapt=True)
    again = x509.load_pem_x509_certificate(ensure_ca(tmp_path).read_bytes())
    assert again.public_key() == first.public_key() and again.subject == first.subject
    assert again.serial_number != first.serial_number
    found = look_at_ca(tmp_path)
    assert found is not None and found.names == frozenset({"api.openai.com", "llm.example"})
    assert "certificate has changed" in caplog.text and "stepwell ca" in caplog.text
    assert found.certificate.with_name("mitmproxy-ca.pem").stat().st_mode & 0o777 == 0o600


def test_the_limit_comes_and_goes_with_the_setting(tmp_path: Path) -> None:
    def names(**more: Any) -> frozenset[str] | None:
        ensure_ca(tmp_path, config("llm.example", **more), adapt=True)
        found = look_at_ca(tmp_path)
        assert found is not None
        return found.names

    assert names(ca_name_constraints=False) is None
    assert names() == frozenset({"llm.example"})
    assert names(ca_name_constraints=False) is None


def test_looking_makes_nothing(tmp_path: Path) -> None:
    assert look_at_ca(tmp_path) is None
    assert not any(tmp_path.iterdir())
    ensure_ca(tmp_path).write_text("damaged")
    with pytest.raises(SettingsError, match="cannot be read"):
        look_at_ca(tmp_path)
    other = ensure_ca(tmp_path / "other")
    ensure_ca(tmp_path).write_bytes(other.read_bytes())
    with pytest.raises(SettingsError, match="is not the certificate of"):
        look_at_ca(tmp_path)
