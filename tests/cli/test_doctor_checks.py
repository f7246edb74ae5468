"""What the doctor sees without asking a process."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from stepwell.cli import _doctor_checks as checks
from stepwell.cli import load_settings
from stepwell.home import home_folder
from stepwell.proxy import _ca, ensure_ca


def test_a_data_folder(tmp_path: Path) -> None:
    assert [finding.status for finding in checks.data_folder(tmp_path)] == ["ok", "ok"]
    (finding, _) = checks.data_folder(tmp_path / "a" / "b")
    assert finding.status == "ok" and "can be made" in finding.message
    (tmp_path / "file").touch()
    (finding,) = checks.data_folder(tmp_path / "file" / "b")
    assert finding.status == "bad" and finding.do


def test_a_network_file_system_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "filesystem", lambda _: "nfs4")
    found = list(checks.data_folder(tmp_path))
    assert found[0].status == "bad" and "nfs4" in found[0].message


def test_the_file_system_of_a_folder(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\nserver:/y /no\\040where cifs rw 0 0\n")
    assert checks.filesystem(tmp_path / "deep", mounts) == "nfs4"
    assert checks.filesystem(Path("/"), mounts) == "ext4"
    assert checks.filesystem(Path("/no where/x"), mounts) == "cifs"
    assert checks.filesystem(tmp_path, tmp_path / "absent") is None


@pytest.mark.parametrize(("free", "status"), [(10 << 30, "ok"), (1 << 30, "warn"), (100 << 20, "bad")])
def test_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": free}))
    assert list(checks.data_folder(tmp_path))[1].status == status


def test_the_token() -> None:
    path = home_folder() / "token"
    path.chmod(0o600)
    assert checks.token(home_folder()).status == "ok"
    assert "token-of-this-test" not in str(checks.token(home_folder()))
    path.chmod(0o640)
    assert "chmod 600" in checks.token(home_folder()).do
    path.chmod(0o600)
    path.write_text("\n")
    assert checks.token(home_folder()).status == "bad"
    path.unlink()
    assert checks.token(home_folder()).status == "warn"


def test_the_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    home = home_folder()
    assert checks.certificate(home).status == "warn"
    key = ensure_ca(home).with_name("mitmproxy-ca.pem")
    assert checks.certificate(home).status == "ok" and "for any host" in checks.certificate(home).message
    key.chmod(0o644)
    assert "chmod 600" in checks.certificate(home).do
    key.unlink()
    for life, status in ((timedelta(days=13), "warn"), (timedelta(hours=-1), "bad")):
        monkeypatch.setattr(_ca, "_LIFE", life)
        ensure_ca(home)
        assert checks.certificate(home).status == status
    (home / "ca" / "mitmproxy-ca-cert.pem").unlink()
    assert checks.certificate(home).status == "bad"


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings()
    shown = checks.environment(settings)
    assert shown.status == "ok" and "http://<trajectory>:<token>@127.0.0.1:8788" in shown.message
    monkeypatch.setenv("NO_PROXY", "localhost,.anthropic.com")
    assert checks.environment(settings).status == "warn"
    assert ".anthropic.com" in checks.environment(settings).message


@pytest.mark.parametrize(("says", "status"), [("v20.1.0", "warn"), ("v24.4.0", "warn"), ("v24.5.0", "ok"), ("", "ok")])
def test_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, status: str) -> None:
    (tmp_path / "node").write_text(f"#!/bin/sh\necho {says}\n")
    (tmp_path / "node").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert checks.node().status == status
    monkeypatch.setenv("PATH", "")
    assert checks.node().status == "ok"
