"""Settings of ingest: explained, checked, unchangeable."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from stepwell.warehouse import IngestConfig


def test_every_setting_is_explained() -> None:
    assert all(field.description for field in IngestConfig.model_fields.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval": -1},
        {"idle": 0},
        {"drain": -0.1},
        {"lock_wait": -1},
        {"intervall": 1},
        {"raw": "some"},
        {"raw_days": 0},
        {"raw_max_bytes": -1},
        {"metrics_port": 65536},
    ],
)
def test_wrong_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        IngestConfig(**wrong)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(IngestConfig(), "interval", 1.0)  # noqa: B010 — type checkers know that it is frozen


def test_raw_calls_are_kept_for_days() -> None:
    assert IngestConfig(raw_days=1.5).raw_age == timedelta(hours=36)
