from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell.gateway import Tokens, _grants
from stepwell.gateway._grants import Grants

HOUR = 3600.0


class Clock:
    now = 1_760_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_new_and_revoked_tokens_count_at_the_next_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokens(tmp_path)
    grants = Grants(tokens)
    shown, made = tokens.create(["read"])
    assert await grants.find(shown) == made
    later, _ = tokens.create(["read"])
    tokens.revoke(made.id)
    assert await grants.find(shown) == made and await grants.find(later) is None  # for FRESH seconds
    monkeypatch.setattr(_grants, "FRESH", 0.0)
    assert await grants.find(shown) is None and await grants.find(later) is not None


async def test_nobody_is_turned_away_by_the_first_reading(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    shown, made = tokens.create(["read"])
    grants = Grants(tokens)
    assert await asyncio.gather(*(grants.find(shown) for _ in range(8))) == [made] * 8


async def test_expired_between_two_readings(tmp_path: Path) -> None:
    clock = Clock()
    tokens = Tokens(tmp_path, clock=clock)
    shown, made = tokens.create(["read"], seconds=1)
    grants = Grants(tokens, clock=clock)
    assert await grants.find(shown) == made
    clock.now += 1
    assert await grants.find(shown) is None


async def test_the_last_use_is_kept_to_the_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_grants, "FRESH", 0.0)
    clock, tokens, noted = Clock(), Tokens(tmp_path), list[dict[str, float]]()
    shown, made = tokens.create(["read"])
    unused, _ = tokens.create(["read"])
    used = tokens.used

    def note(times: dict[str, float]) -> None:
        noted.append(times)
        used(times)

    monkeypatch.setattr(tokens, "used", note)
    grants = Grants(tokens, clock=clock)
    for _ in range(4):
        await grants.find(shown)
        await grants.find(unused + "x")
        clock.now += 60
    assert noted == [{made.id: clock.now // HOUR * HOUR}]
    assert [token.used_at for token in tokens.all()] == [clock.now // HOUR * HOUR, None]
    clock.now += HOUR
    await grants.find(shown)
    await grants.find(shown)
    assert len(noted) == 2


async def test_a_file_that_cannot_be_read_leaves_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_grants, "FRESH", 0.0)
    tokens = Tokens(tmp_path)
    shown, _ = tokens.create(["read"])
    grants = Grants(tokens)
    assert await grants.find(shown)
    tokens.path.write_bytes(b"no database " * 1000)
    assert await grants.find(shown)
    assert "stay in force" in caplog.text
