"""kill -9 of `stepwell forget`, wherever it is: the next one finishes it, and everything else reads as before."""

from __future__ import annotations

import multiprocessing
import random
import time
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest
from tests.warehouse.forget.scene import SECRET, WHERE, command, forget, found

from stepwell.warehouse import Warehouse
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._verify.verify import verify

DEATHS = 10
WORDS = ("prompt_ids", "messages", "response", "response_ids", "logprobs", "content_hash", "turn")


def check_it_is_gone(data: Path, filled: dict[str, Any]) -> None:
    assert found(data, SECRET, "bad-one", *filled["bad"], filled["mixed"][0]) == []
    warehouse = Warehouse.open(data / "warehouse")
    assert objects_at(warehouse.uri, {}).listed("_forget") == []
    findings = [str(finding) for finding in verify(warehouse.uri, {}, deep=True).findings]
    assert findings == ["note  d@1: incomplete, 4 steps forgotten"]
    whole = warehouse.whole(filled["mixed"][1:])
    for column in WORDS:
        assert whole[column].to_pylist() == filled["before"][column].to_pylist(), column
    assert warehouse.query("SELECT count(*) AS n FROM steps")["n"].to_pylist() == [2]


@pytest.mark.timeout(300)
def test_a_forget_that_dies_anywhere(data: Path, filled: dict[str, Any]) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.warehouse.forget.scene"])

    def lived(at_most: float) -> float | None:
        """Run it on a data folder as it was, and kill it after so many seconds; how long it took, None where it came to no end."""
        for folder in ("warehouse", "spool"):
            rmtree(data / folder)
            copytree(filled["root"] / folder, data / folder)
        begun = context.Event()
        process = context.Process(target=command, args=(str(data), begun))
        process.start()
        assert begun.wait(60)
        begin = time.monotonic()
        process.join(at_most)
        process.kill()
        process.join(60)
        assert process.exitcode in (0, -9)
        return None if process.exitcode else time.monotonic() - begin

    took = lived(60)
    assert took is not None
    check_it_is_gone(data, filled)
    chance, died = random.Random(11), 0
    for _ in range(2 * DEATHS):
        ended = lived(chance.uniform(0.0, took))
        took, died = min(took, ended or took), died + (ended is None)
        forget(data, where=WHERE, patience=5)
        check_it_is_gone(data, filled)
        if died == DEATHS:
            return
    raise AssertionError(f"{died} of {2 * DEATHS} died, which tests little")
