"""What must hold when everything has come to rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import orjson
import pyarrow as pa
from tests.soak._said import SHARED_EVERY, reward, rewarded, step
from tests.stores import Place

from stepwell.warehouse import Warehouse, verify

_AHEAD = 100
"""Steps that a producer may have submitted and not have written down when it was killed."""


def check(place: Place, accepted: Mapping[str, list[int]], frozen: Mapping[str, str]) -> dict[str, int]:
    """Nothing lost, nothing double, everything whole, every dataset (name to fingerprint) as it was; how much there is of each.

    Against the tables themselves: views would hide what is not committed, and joins what is double. And verification finds no fault.
    """
    warehouse = place.open(create=False)
    steps, events = _ids(warehouse, "steps", "step_id"), _ids(warehouse, "events", "event_id")
    _exactly(steps, (step(name, number).step_id for name, found in accepted.items() for number in found))
    _exactly(events, (reward(name, n) for name, found in accepted.items() for n in found if rewarded(n)))
    for table in warehouse.tables.values():
        assert table.dataset.count_rows("ledger IS NOT NULL") == 1
    _commits_follow_each_other(warehouse)
    _all_is_visible_and_whole(warehouse, steps)
    for name, fingerprint in frozen.items():
        assert warehouse.datasets.get(name).fingerprint == fingerprint
        warehouse.datasets.read(name, verify=True)
    report = verify(place.uri, place.options, deep=True)
    assert report.ok, [str(finding) for finding in report.findings if finding.wrong]
    return {"steps": len(steps), "events": len(events), "commits": warehouse.tables["commits"].number()}


def _ids(warehouse: Warehouse, table: str, key: str) -> list[str]:
    dataset = warehouse.tables[table].dataset
    ids: list[str] = dataset.to_table(columns=[key], filter="ledger IS NULL")[key].to_pylist()
    return ids


def _exactly(stored: list[str], accepted: Iterable[str]) -> None:
    """Each accepted one is there, and each there once; what was being submitted when its producer died may be there, too."""
    counted, wanted = Counter(stored), set(accepted)
    assert not (double := [id_ for id_, count in counted.items() if count > 1]), f"{len(double)} double: {double[:5]}"
    assert not (lost := wanted - counted.keys()), f"{len(lost)} lost: {sorted(lost)[:5]}"
    assert len(counted.keys() - wanted) <= _AHEAD


def _commits_follow_each_other(warehouse: Warehouse) -> None:
    columns = ["commit", "producer", "after", "sequence"]
    found = warehouse.tables["commits"].dataset.to_table(columns=columns, filter="ledger IS NULL")
    reached: dict[str, int] = {}
    for row in found.sort_by("commit").to_pylist():
        assert row["after"] == reached.get(row["producer"], 0), row
        reached[row["producer"]] = row["sequence"]
    assert reached == warehouse.marks()


def _all_is_visible_and_whole(warehouse: Warehouse, steps: list[str]) -> None:
    assert warehouse.query("SELECT count(*) AS n FROM steps")["n"].to_pylist() == [len(steps)]
    whole = warehouse.whole(steps, ["step_id", "trajectory_id", "prompt_ids", "response_ids", "messages"])
    for batch in whole.to_batches(max_chunksize=500):
        for row in pa.Table.from_batches([batch]).to_pylist():
            name, number = re.fullmatch(r"(.+)-(\d+)", row["step_id"]).groups()  # type: ignore[union-attr]
            said = step("any" if name == "both" else name, int(number))
            assert (name == "both") == (int(number) % SHARED_EVERY == SHARED_EVERY - 1)
            assert row["prompt_ids"] == said.prompt_ids, row["step_id"]
            assert row["response_ids"] == said.response_ids, row["step_id"]
            assert len(orjson.loads(row["messages"])) == len(said.messages or []), row["step_id"]
