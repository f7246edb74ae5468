from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest

from stepwell.errors import SettingsError, StepwellError
from stepwell.gateway import SCOPES, Tokens
from stepwell.gateway._tokens import parts_of


class Clock:
    now = 1_760_000_000.0

    def __call__(self) -> float:
        return self.now


def test_what_was_made_is_known_by_its_hash_alone(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "home", clock=Clock())
    shown, made = tokens.create(["read", "ingest"], project="shop", note="ours", seconds=60)
    assert [made] == tokens.all() == tokens.live()
    assert (sorted(made.scopes), made.project, made.note) == (["ingest", "read"], "shop", "ours")
    assert (made.created_at, made.expires_at, made.used_at) == (Clock.now, Clock.now + 60, None)
    parts = parts_of(shown)
    assert parts is not None and parts[0] == made.id and len(parts[1]) == 43
    assert made.digest == hashlib.sha256(parts[1].encode()).digest()
    assert parts[1].encode() not in tokens.path.read_bytes()
    assert tokens.path.stat().st_mode & 0o777 == 0o600 and tokens.path.parent.stat().st_mode & 0o777 == 0o700


def test_it_fits_its_secret_until_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    tokens = Tokens(tmp_path, clock=clock)
    shown, made = tokens.create(["read"], seconds=60)
    secret = shown.split("_", 2)[2]
    assert made.fits(secret, clock.now + 59.9)
    assert not made.fits(secret, clock.now + 60)
    assert (
        not made.fits(secret + "x", clock.now) and not made.fits("", clock.now) and not made.fits("\udcff", clock.now)
    )
    clock.now += 60
    assert tokens.all() == [made] and tokens.live() == []


def test_revoked_is_gone_and_its_neighbour_stays(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    first, second = tokens.create(["read"])[1], tokens.create(["admin"])[1]
    tokens.revoke(first.id)
    assert tokens.all() == [second]
    with pytest.raises(StepwellError, match=f"no token {first.id}"):
        tokens.revoke(first.id)


def test_looking_makes_nothing(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "home")
    assert tokens.all() == []
    with pytest.raises(StepwellError):
        tokens.revoke("x")
    assert not tokens.path.parent.exists()


def test_the_last_use_is_noted(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    made = tokens.create(["read"])[1]
    tokens.used({made.id: 7.0, "gone": 8.0})
    assert [token.used_at for token in tokens.all()] == [7.0]


@pytest.mark.parametrize("given", ["", "stepwell_", "stepwell_ab", "stepwell_ab_", "other_ab_cd", "ab_cd"])
def test_what_is_no_token(given: str) -> None:
    assert parts_of(given) is None
    assert parts_of("stepwell_ab_c_d") == ("ab", "c_d")


@pytest.mark.parametrize("project", ["", "a b", "ü", "x" * 101, "a\n"])
def test_a_project_is_a_plain_name(tmp_path: Path, project: str) -> None:
    with pytest.raises(SettingsError, match="project"):
        Tokens(tmp_path).create(["read"], project=project)


def test_a_token_without_scopes_is_none(tmp_path: Path) -> None:
    for scopes in ((), ("root",)):
        with pytest.raises(SettingsError, match=", ".join(SCOPES)):
            Tokens(tmp_path).create(scopes)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert Tokens(tmp_path).all() == []


def test_a_file_that_is_none_is_said(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.path.write_text("no database, and long enough to be looked at as one: " + "x" * 4096)
    with pytest.raises(SettingsError, match=r"tokens\.db"):
        tokens.all()
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="STEPWELL_HOME"):
        Tokens(tmp_path / "file" / "home").create(["read"])


def test_a_writer_and_a_reader_at_once(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    made = tokens.create(["read"])[1]
    other = sqlite3.connect(tokens.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert tokens.all() == [made]  # who writes does not keep a gateway from reading
    other.close()
