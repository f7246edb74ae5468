"""Sixty-four clients in eight processes, and a gateway that is killed ten times meanwhile: nothing is lost, twice, or out of order."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest
from tests.gateway.clients import turn
from tests.gateway.running import Gateways

from stepwell.spool import SpoolReader
from stepwell.warehouse import Ingest, Warehouse

PROCESSES, THREADS, KILLS, LEAST = 8, 8, 10, 4
ALIVE = 0.8
"""Seconds that a gateway is left to work."""


@pytest.mark.timeout(120)
def test_every_step_is_there_once_and_in_order(tmp_path: Path, token: str) -> None:
    data, stop = tmp_path / "data", tmp_path / "stop"
    gateways = Gateways(data, token)
    client = Path(__file__).with_name("clients.py")
    clients = [
        subprocess.Popen(
            [sys.executable, str(client), str(gateways.port), token, str(number), str(THREADS), str(stop), str(LEAST)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    try:
        _wait_for_steps(data, 3 * PROCESSES)
        for _ in range(KILLS):
            time.sleep(ALIVE)
            gateways.kill()
            gateways.start()
        stop.touch()
        said: dict[str, list[str]] = {}
        again = 0
        for one in clients:
            out, _ = one.communicate()
            assert one.returncode == 0
            told = json.loads(out)
            said, again = said | told["done"], again + told["again"]
    finally:
        gateways.close()
        for one in clients:
            if one.poll() is None:
                one.kill()
                one.communicate()
    assert len(said) == PROCESSES * THREADS and again >= KILLS, "no request was under way when a gateway was killed"
    assert all(len(ids) >= LEAST for ids in said.values())
    _check(tmp_path / "warehouse", data / "spool", said)


def _wait_for_steps(data: Path, records: int) -> None:
    while True:
        with closing(SpoolReader(data / "spool" / "gateway.db")) as reader:
            if reader.last() >= records:
                return
        time.sleep(0.05)


def _check(root: Path, spool: Path, said: dict[str, list[str]]) -> None:
    """What was acknowledged is what is there: clients went on only after they had an answer."""
    warehouse = Warehouse.open(root)
    Ingest(warehouse, spool).run_once()
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    came: dict[str, list[str]] = defaultdict(list)
    columns = 'trajectory_id, step_id, turn, prompt_length, "commit", sequence'
    for row in warehouse.query(f'SELECT {columns} FROM steps ORDER BY "commit", sequence, turn').to_pylist():
        found[row["trajectory_id"]].append((row["turn"], row["step_id"]))
        came[row["trajectory_id"]].append(row["step_id"])
        number = int(row["step_id"].rpartition(".")[2])
        assert row["prompt_length"] == len(turn(row["trajectory_id"], number)["prompt_ids"])
    stored = warehouse.tables["steps"].dataset.to_table(columns=["step_id"], filter="ledger IS NULL")
    assert stored.num_rows == sum(map(len, said.values()))  # no row that views would pass over
    assert warehouse.query("SELECT count(*) AS n FROM quarantine").to_pylist() == [{"n": 0}]
    assert found.keys() == said.keys()
    for trajectory, ids in said.items():
        assert [id_ for _, id_ in sorted(found[trajectory])] == ids
        assert came[trajectory] == ids  # in the order of commit, in which a record has its turns in order
        assert sorted(number for number, _ in found[trajectory]) == list(range(len(ids)))
