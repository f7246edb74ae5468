from __future__ import annotations

from importlib.metadata import version
from typing import Any

from stepwell.spool import write_cursor


def test_health(api: Any) -> None:
    for _ in range(3):
        api.post("/steps", {"prompt_ids": [1], "response_ids": [2]})
    write_cursor(api.folder, {api.spool.producer: 1})
    answer = api.get("/health").json()
    assert (answer["status"], answer["version"]) == ("ok", version("stepwell"))
    spool = answer["spool"]
    assert (spool["producer"], spool["last"], spool["committed"], spool["lag"], spool["lost"]) == (
        api.spool.producer,
        3,
        1,
        2,
        0,
    )
    assert 0 < spool["bytes"] < spool["max_bytes"]


def test_version(api: Any) -> None:
    assert api.get("/version").json() == {"version": version("stepwell"), "api": "v1"}
