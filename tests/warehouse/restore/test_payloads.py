"""Payloads found in the table, many at once, and kept."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

from stepwell.warehouse._encode.payloads import Payload, PayloadMemory
from stepwell.warehouse._restore.payloads import Payloads
from stepwell.warehouse._tables.schema import PAYLOADS


class Table:
    """Counts how often it is looked at."""

    def __init__(self, folder: Path, payloads: list[Payload]) -> None:
        rows = PayloadMemory().rows([(payloads, "p", 1)])
        ledger = PAYLOADS.schema.empty_table().from_pylist([{"payload_id": "__ledger__"}], schema=PAYLOADS.schema)
        self._dataset = lance.write_dataset(ledger, str(folder / "payloads.lance"))
        if rows.num_rows:
            self._dataset = lance.write_dataset(rows, str(folder / "payloads.lance"), mode="append")
        self.looks = 0

    def __call__(self) -> lance.LanceDataset:
        self.looks += 1
        return self._dataset


def payloads(count: int) -> list[Payload]:
    return [Payload(f"{number:032}", b"x" * 100 + bytes([65 + number % 26])) for number in range(count)]


@pytest.mark.parametrize("count", [3, 500])
def test_many_are_found_with_one_look_and_kept(tmp_path: Path, count: int) -> None:
    table = Table(tmp_path, payloads(count))
    lookup = Payloads(table)
    wanted = [payload.payload_id for payload in payloads(count)]
    assert lookup([*wanted, "nobody's"]) == dict(payloads(count))
    assert lookup(wanted) == dict(payloads(count))
    assert table.looks == 1


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    table = Table(tmp_path, payloads(10))
    lookup = Payloads(table, max_bytes=350)
    wanted = [payload.payload_id for payload in payloads(10)]
    assert len(lookup(wanted)) == 10
    assert len(lookup(wanted)) == 10
    assert table.looks == 2
    lookup(wanted[6:7])
    assert table.looks == 2, "the last that was read is kept"


def test_nothing_there(tmp_path: Path) -> None:
    table = Table(tmp_path, [])
    assert Payloads(table)([]) == {}
    assert Payloads(table)(["a"]) == {}
