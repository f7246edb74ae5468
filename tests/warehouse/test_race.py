"""Eight processes at once make the tables, write, forget, compact, clean, query, read, freeze, pin and verify: each of them is right."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from tests.warehouse.racing import RACERS, TURNS, again, ask, check_whole, forget, freeze, look, maintain, read, write

from stepwell.spool import marks
from stepwell.warehouse import Ingest, Warehouse, verify


def settle(warehouse: Warehouse, folder: Path) -> None:
    """All that the spools of a folder have accepted is committed."""
    worker = Ingest(warehouse, folder)
    while again(worker.run_once) or not again(worker.settle):
        pass
    worker.close()
    assert not warehouse.wait_for(marks(folder), 0.0)


@pytest.mark.timeout(300)
def test_eight_processes_at_once(tmp_path: Path) -> None:
    for folder in ("ready", "a", "b", "gone"):
        (tmp_path / folder).mkdir()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.warehouse.racing"])
    with ProcessPoolExecutor(RACERS, mp_context=context) as pool:
        written = [pool.submit(write, tmp_path, name) for name in ("a", "b")]
        gone = pool.submit(forget, tmp_path, "gone")
        others = [pool.submit(work, tmp_path, work.__name__) for work in (maintain, ask, read, look)]
        frozen = pool.submit(freeze, tmp_path, "frozen").result()
        trajectories = [name for work in written for name in work.result()]
        assert all(work.result() for work in others), "each of them got on"
        assert gone.result()
    warehouse = Warehouse.open(tmp_path / "warehouse", create=False)
    for folder in ("a", "b", "gone"):
        settle(warehouse, tmp_path / folder)
    check_all_is_there_once(warehouse, trajectories)
    assert frozen
    for label, fingerprint in frozen.items():
        name, _, version = label.partition("@")
        assert warehouse.datasets.get(name, int(version)).fingerprint == fingerprint
        check_whole(warehouse.datasets.read(name, int(version)))
    warehouse.maintain()
    report = verify(str(tmp_path / "warehouse"), {}, deep=True)
    assert report.ok, [str(finding) for finding in report.findings if finding.wrong]


def check_all_is_there_once(warehouse: Warehouse, trajectories: list[str]) -> None:
    """In the tables themselves: views would hide what is double. Nothing of what was forgotten is in them."""
    warehouse.refresh()
    for table, column, prefix in (("steps", "step_id", ""), ("events", "target_id", "")):
        stored = warehouse.tables[table].dataset.to_table(columns=[column], filter="ledger IS NULL")[column].to_pylist()
        assert Counter(stored) == Counter(f"{prefix}{name}.{turn}" for name in trajectories for turn in range(TURNS)), (
            table
        )
    check_whole(warehouse.steps(columns=["step_id", "prompt_ids"]).read_all())
