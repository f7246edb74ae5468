"""`stepwell ca`: the certificate, never the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography import x509

from stepwell.cli import main


def test_it_prints_the_certificate_alone(capfd: Any) -> None:
    assert main(["ca"]) == 0
    out = capfd.readouterr().out
    assert x509.load_pem_x509_certificate(out.encode()).subject
    assert "PRIVATE" not in out
    assert main(["ca"]) == 0
    assert capfd.readouterr().out == out


def test_path_and_export_name_and_copy_the_same(place: Path, capfd: Any) -> None:
    assert main(["ca", "--path"]) == 0
    path = Path(capfd.readouterr().out.strip())
    assert main(["ca", "--export", "stepwell.crt"]) == 0
    exported = (place / "stepwell.crt").read_bytes()
    assert exported == path.read_bytes()
    assert b"PRIVATE" not in exported
    assert capfd.readouterr().out == ""


def test_where_it_cannot_be_written_is_said(capfd: Any) -> None:
    assert main(["ca", "--export", "no/such/folder"]) == 2
    assert "cannot write the certificate" in capfd.readouterr().err
