"""kill -9 of a maintainer, wherever it is: nothing is lost, what is left is whole, and the next one finishes the work."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from typing import Any

from tests.stores import Place
from tests.warehouse.upkeep import maintained

from stepwell.warehouse import Ingest
from stepwell.warehouse._encode.payloads import PayloadMemory, outsourced
from stepwell.warehouse._upkeep.indices import INDICES
from stepwell.warehouse._verify.verify import verify

DEATHS = 8


def test_a_maintainer_that_dies_anywhere(
    local: Place, spools: Any, feed: Any, drained: Callable[[Ingest], int]
) -> None:
    warehouse, worker = local.open(), Ingest(local.open(), spools)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.warehouse.upkeep.maintained"])
    made, died, chance = list[str](), 0, random.Random(7)

    def add() -> None:
        for number in range(3):
            ids = {"prompt_ids": [*range(40), number], "response_ids": [number], "reward": 1.0}
            made.append(feed.step(trajectory_id=f"t{len(made) // 4}", metadata={"tags": ["x"]}, **ids))
            text = f"{len(made)} " + "x" * 4000
            made.append(feed.exchange([{"role": "user", "content": text}], "a", f"t{len(made) // 4}"))
            drained(worker)
        _, apart = outsourced(b'{"role":"user","content":["%b"]}' % (b"%d" % len(made) * 2000))
        warehouse.tables["payloads"].refresh()
        warehouse.tables["payloads"].commit(PayloadMemory().rows([(apart, feed.producer, 1)]), {})

    add()
    warehouse.datasets.create("d", "true")
    begin = time.monotonic()
    maintained.thorough(local.open())
    took = time.monotonic() - begin
    for _ in range(DEATHS):
        add()
        begun = context.Event()
        process = context.Process(target=maintained.run, args=(local.uri, begun))
        process.start()
        assert begun.wait(60)
        time.sleep(chance.uniform(0.0, took))
        process.kill()
        process.join(60)
        died += process.exitcode != 0
        said = [one for one in verify(local.uri, {}).findings if one.wrong]
        assert [one for one in said if "of an older version" not in one.what] == [], "that is half removed"
    assert died > DEATHS // 3, "or this tests little"
    last = maintained.thorough(local.open())
    assert last.errors == [] and {done.error for done in last.tables.values()} == {None}
    report = verify(local.uri, {}, deep=True)
    assert [str(one) for one in report.findings if "from interrupted work" not in one.what] == []
    assert {name: table.versions for name, table in report.tables.items()} == dict.fromkeys(report.tables, 1)
    whole = local.open()
    assert sorted(whole.query("SELECT step_id FROM steps")["step_id"].to_pylist()) == sorted(made)
    assert whole.steps(columns=["messages"]).read_all().num_rows == len(made)
    assert whole.tables["payloads"].dataset.count_rows("ledger IS NULL") == len(made) // 2
    there = {index.field_names[0] for index in whole.tables["steps"].dataset.describe_indices()}
    assert there == set(INDICES["steps"])
    assert whole.datasets.read("d", verify=True).num_rows == 6
