from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stepwell.errors import SettingsError
from stepwell.home import create_token, home_folder, read_token


def test_the_folder_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPWELL_HOME", str(tmp_path / "here"))
    assert home_folder() == tmp_path / "here"
    monkeypatch.setenv("STEPWELL_HOME", "")
    assert home_folder() == Path.home() / ".stepwell"
    monkeypatch.setenv("STEPWELL_HOME", "~/elsewhere")
    assert home_folder() == Path.home() / "elsewhere"


def test_no_token_before_one_is_made(tmp_path: Path) -> None:
    assert read_token(tmp_path) is None
    (tmp_path / "token").write_text("\n")
    assert read_token(tmp_path) is None


def test_a_token_is_made_once_and_is_private(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    token = create_token(home)
    assert len(token) >= 43
    assert create_token(home) == read_token(home) == token
    assert stat.S_IMODE((home / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [path.name for path in home.iterdir()] == ["token"]


def test_those_who_start_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        tokens = set(pool.map(lambda _: create_token(tmp_path / "home"), range(64)))
    assert len(tokens) == 1


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="token"):
        create_token(tmp_path / "file")


def test_a_token_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir()
    with pytest.raises(SettingsError, match="cannot read the token"):
        read_token(tmp_path)
