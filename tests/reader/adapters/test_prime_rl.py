from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader.adapters import rows_of, to_prime_rl

Make = Callable[..., Any]


def with_temperatures(made: Make, *temperatures: float | None) -> Any:
    return rows_of(made(), pa.table({"step_id": [f"s{row}" for row in range(5)], "temperature": temperatures}))


def test_everything_is_as_long_as_the_row(made: Make) -> None:
    long, _, other = to_prime_rl(with_temperatures(made, 0.5, 0.6, 0.7, 1.0, 0.2), env_name="shop")
    assert long["token_ids"] == [1, 2, 11, 12, 3, 13, 4, 5, 14, 15, 16]
    assert long["mask"] == [False, False, True, True, False, True, False, False, True, True, True]
    assert long["temperatures"] == [1, 1, 0.5, 0.5, 1, 0.6, 1, 1, 0.7, 0.7, 0.7]
    assert other["advantages"] == pytest.approx([0, 2, 2, 2, 2]) and other["env_name"] == "shop"
    assert {len(value) for name, value in long.items() if name != "env_name"} == {11}


def test_a_temperature_is_never_made_up(made: Make) -> None:
    with pytest.raises(InvalidRecord, match="step s3 has none"):
        to_prime_rl(with_temperatures(made, 1.0, 1.0, 1.0, None, 1.0), env_name="shop")
    with pytest.raises(InvalidRecord, match="lacks temperature"):
        to_prime_rl(made(), env_name="shop")
    assert to_prime_rl(made(), env_name="shop", temperature=0.8)[1]["temperatures"] == [0.8] * 3
