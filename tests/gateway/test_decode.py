from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from stepwell.gateway import GatewayConfig
from stepwell.gateway._decode import decoded
from stepwell.gateway._problems import Problem

STEP = b'{"step_id":"s","prompt_ids":[1],"response_ids":[2]}'
LIMIT = 1 << 20

PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("coding", PACK)
@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 5000, LIMIT])
def test_bodies_come_out_as_they_went_in(coding: str, size: int) -> None:
    plain = bytes(number % 251 for number in range(size))
    packed = PACK[coding](plain)
    assert decoded(packed, coding, LIMIT) == plain
    both = plain * 2 if size * 2 <= LIMIT else plain
    assert decoded(packed * (2 if both != plain else 1), coding, LIMIT) == both  # several members, or frames


@pytest.mark.parametrize("coding", PACK)
def test_a_bomb_is_stopped_at_the_limit(coding: str) -> None:
    with pytest.raises(Problem) as caught:
        decoded(PACK[coding](b"\0" * (LIMIT + 1)), coding, LIMIT)
    assert caught.value.status == 413 and "gateway.max_body_bytes" in str(caught.value)
    with pytest.raises(Problem):
        decoded(PACK[coding](b"\0" * LIMIT) * 1000, coding, LIMIT)


@pytest.mark.parametrize("coding", PACK)
def test_what_is_not_whole_is_refused(coding: str) -> None:
    packed = PACK[coding](STEP * 100)
    for bad in (packed[:-1], packed[:10], b"nonsense", packed + b"more", STEP):
        with pytest.raises(Problem) as caught:
            decoded(bad, coding, LIMIT)
        assert caught.value.status == 400


@pytest.mark.parametrize("coding", PACK)
def test_over_http(api_of: Any, coding: str) -> None:
    api = api_of(GatewayConfig(max_body_bytes=100_000))
    headers = {"content-type": "application/json", "content-encoding": coding}
    assert api.post("/steps", content=PACK[coding](STEP), headers=headers).json()["items"][0]["status"] == "accepted"
    assert [step.step_id for step in api.steps()] == ["s"]
    answer = api.post("/steps", content=PACK[coding](b" " * 100_001), headers=headers)
    assert answer.status_code == 413
    assert api.post("/feedback", content=b"{}", headers=headers).status_code == 400


def test_an_unknown_encoding_is_told_what_there_is(api: Any) -> None:
    answer = api.post("/steps", content=STEP, headers={"content-type": "application/json", "content-encoding": "br"})
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "gzip, zstd")
