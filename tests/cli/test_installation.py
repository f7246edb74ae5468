"""Token and certificate authority of a user."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.cli._installation import installation
from stepwell.errors import SettingsError


def test_both_are_made_once_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_HOME", str(tmp_path / "new"))
    first, second = installation(), installation()
    assert first == second
    assert first.certificate.read_bytes() == second.certificate.read_bytes()
    assert (first.home / "token").stat().st_mode & 0o777 == 0o600
    assert first.home.stat().st_mode & 0o777 == 0o700


def test_a_home_that_cannot_be_used_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("STEPWELL_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(SettingsError, match="cannot read the token"):
        installation()


def test_an_authority_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "home" / "ca").touch()  # in the way of the folder
    with pytest.raises(SettingsError, match="set STEPWELL_HOME"):
        installation()
