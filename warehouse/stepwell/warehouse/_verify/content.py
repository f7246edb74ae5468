"""Whether steps can be restored to what they were, and datasets are what was frozen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.warehouse._datasets import frozen
from stepwell.warehouse._datasets.forgotten import incomplete
from stepwell.warehouse._datasets.registry import Registry
from stepwell.warehouse._encode.content import hashes_of
from stepwell.warehouse._encode.payloads import Lookup
from stepwell.warehouse._restore.whole import WHOLE, needed, restore_batches
from stepwell.warehouse._tables.table import first_line
from stepwell.warehouse._verify.files import Sound
from stepwell.warehouse._verify.report import SHOWN, Report

_AT_ONCE = 64
"""Trajectories that are read together."""
_LISTED = 200
"""Most ids in a filter; for more, all is read."""


def check_steps(steps: Sound, payloads: Sound, report: Report) -> None:
    """Restore every step, and compare it with the hash of its content that was taken when it came."""
    lost, wrong = _Some(), _Some()
    stored_apart = _lookup(payloads)
    columns = [*WHOLE, "response_ids", "logprobs", "response", "content_hash"]
    for stored in _by_trajectory(steps, list(dict.fromkeys([*needed(WHOLE), *columns[3:], "trajectory_id"]))):
        broken = dict[str, str]()
        for whole in restore_batches(stored, columns, stored_apart, broken=broken):
            report.steps_read += whole.num_rows
            ids = zip(whole["step_id"].to_pylist(), hashes_of(whole), whole["content_hash"].to_pylist(), strict=True)
            wrong.add({step_id: "" for step_id, now, then in ids if now != then})
        lost.add(broken)
    if lost.count:
        what = f"{lost.count} steps cannot be restored; {next(iter(lost.first.values()))}"
        do = "their trajectories' other steps can be read; copy what is missing back from a backup"
        report.bad("steps", what, do, lost.first)
    if wrong.count:
        what = f"{wrong.count} steps are not what was stored, first {next(iter(wrong.first))}"
        report.bad("steps", what, "do not train on them; copy them back from a backup", wrong.first)


class _Some:
    """How many, and the first ones: what a finding needs of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: dict[str, str] = {}

    def add(self, found: Mapping[str, str]) -> None:
        self.count += len(found)
        for id_ in list(found)[: SHOWN - len(self.first)]:
            self.first[id_] = found[id_]


def _by_trajectory(steps: Sound, columns: list[str]) -> Iterator[pa.Table]:
    """The stored rows of some trajectories at a time, each trajectory's together."""
    ids = set[str]()
    for batch in steps.batches(["trajectory_id"], "ledger IS NULL"):
        ids.update(batch["trajectory_id"].to_pylist())
    known = sorted(ids)
    for start in range(0, len(known), _AT_ONCE):
        listed = ", ".join("'" + id_.replace("'", "''") + "'" for id_ in known[start : start + _AT_ONCE])
        found = f"trajectory_id IN ({listed})"
        schema = steps.dataset.scanner(columns=columns).projected_schema
        try:
            table = steps.dataset.scanner(columns=columns, filter=found, fragments=steps.fragments).to_table()
        except (
            OSError,
            RuntimeError,
            ValueError,
        ):  # a page that nobody has read yet: find out whose, and go on without
            table = pa.Table.from_batches([batch.select(columns) for batch in steps.batches(columns, found)], schema)
        yield table.sort_by("trajectory_id")


def _lookup(payloads: Sound) -> Lookup:
    """Payloads of the fragments that can be read."""

    def look(payload_ids: Collection[str]) -> Mapping[str, bytes]:
        listed = ", ".join(f"'{id_}'" for id_ in sorted(payload_ids))
        condition = f"payload_id IN ({listed})" if len(payload_ids) <= _LISTED else "ledger IS NULL"
        found = dict[str, bytes]()
        for batch in payloads.batches(["payload_id", "data"], condition):
            for id_, data in zip(batch["payload_id"].to_pylist(), batch["data"], strict=True):
                if id_ in payload_ids:
                    found[id_] = data.as_py()
        return found

    return look


def check_datasets(datasets: Sound, rows: Sound, report: Report) -> None:
    """Whether the frozen rows of each dataset give its fingerprint."""
    try:
        registry = Registry(datasets.table)
        known = registry.list()
    except (StoreError, OSError, ValueError) as error:
        report.bad("datasets", f"the registry cannot be read: {first_line(error)}", "copy it back from a backup")
        return
    for dataset in known:
        report.datasets += 1
        try:
            if (gone := incomplete(registry.lineage(dataset))) is not None:
                report.note(dataset.label, gone)
                continue
            held = frozen.rows_of(rows.table, dataset), frozen.peers_of(rows.table, dataset)
        except (StoreError, OSError, ValueError) as error:
            report.bad(
                dataset.label,
                f"its rows cannot be read: {first_line(error)}",
                "copy the table dataset_rows back from a backup",
            )
            continue
        if held[0].num_rows != dataset.steps:
            report.bad(
                dataset.label,
                f"it has {held[0].num_rows} of {dataset.steps} rows",
                "copy the table dataset_rows back from a backup",
            )
        elif frozen.fingerprint(*held) != dataset.fingerprint:
            report.bad(
                dataset.label,
                "its rows do not give its fingerprint",
                "it was changed: do not train on it, make a new version",
            )
