"""Verification: a sound warehouse passes; each kind of damage is named, with its place, and the rest is checked all the same."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from tests.stores import Place

from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._encode.content import content_hash
from stepwell.warehouse._store.flush import Flush, Inbox
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._tables.ledger import LedgerTable, Marks
from stepwell.warehouse._tables.schema import EVENTS, TABLES
from stepwell.warehouse._tables.table import FileGone
from stepwell.warehouse._verify import files as looking
from stepwell.warehouse._verify import verify as verifying
from stepwell.warehouse._verify.report import Finding, Report
from stepwell.warehouse._verify.rows import check_rows
from stepwell.warehouse._verify.verify import verify

LONG = "a long instruction, again and again. " * 200
Build = Callable[[Place], Warehouse]


def fill(place: Place, spools: Path, feed: Any) -> Warehouse:
    """Two trajectories of chained steps with large parts, rewards, four commits, and a dataset."""
    warehouse = place.open()
    worker = Ingest(warehouse, spools)
    for turn in range(4):
        for name in ("one", "two"):
            asked = [{"role": "user", "content": f"{LONG}{turn}"}] * turn
            feed.step(
                step_id=f"{name}.{turn}",
                trajectory_id=name,
                messages=[{"role": "system", "content": f"{name} {LONG}"}, {"role": "user", "content": "q"}, *asked],
                response="a",
                prompt_ids=list(range(50 + 10 * turn)),
                response_ids=[turn],
                logprobs=[-0.5],
                reward=1.0,
            )
        while worker.run_once():
            pass
    warehouse.datasets.create("d", "step_id IN ('one.0', 'one.1', 'two.0', 'two.1')")
    return warehouse


@pytest.fixture(scope="module")
def _filled() -> dict[str, Any]:
    return {}


@pytest.fixture
def build(feed: Any, spools: Path, _filled: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A filled warehouse at a place. In folders it is a copy of one that is made once."""

    def make(place: Place) -> Warehouse:
        if "://" in place.uri:
            return fill(place, spools, feed)
        if not _filled:
            _filled["root"] = tmp_path_factory.mktemp("filled") / "warehouse"
            fill(Place(str(_filled["root"])), spools, feed)
        shutil.rmtree(place.uri)
        shutil.copytree(_filled["root"], place.uri)
        return place.open()

    return make


def check(place: Place, **more: Any) -> Report:
    return verify(place.uri, place.options, **more)


def only(report: Report) -> Finding:
    [finding] = [one for one in report.findings if one.wrong]
    assert str(finding).startswith("bad ")
    assert finding.do
    return finding


def change(warehouse: Warehouse, name: str, sql: str) -> None:
    """Somebody with plain LanceDB."""
    table = warehouse.tables[name]
    table.refresh()
    table.dataset.delete(sql)


def add(warehouse: Warehouse, name: str, **fields: Any) -> None:
    table = warehouse.tables[name]
    table.add(lambda: pa.Table.from_pylist([fields], schema=table.spec.schema))


def files(warehouse: Warehouse, name: str) -> list[Path]:
    table = warehouse.tables[name]
    table.refresh()
    return [
        Path(table.uri) / "data" / file.path
        for fragment in table.dataset.get_fragments()
        for file in fragment.data_files()
    ]


@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_warehouse(anywhere: Place, build: Build, deep: bool) -> None:
    warehouse = build(anywhere)
    report = check(anywhere, deep=deep)
    assert report.findings == []
    assert report.ok
    assert set(report.tables) == {spec.name for spec in TABLES}
    steps = report.tables["steps"]
    assert (steps.rows, steps.visible) == (8, 8)
    assert steps.versions == len(warehouse.tables["steps"].dataset.versions())
    assert 0 < steps.bytes_referenced <= steps.bytes
    assert report.tables["payloads"].rows >= 2
    assert report.datasets == 1
    assert report.commit == warehouse.version()
    assert report.steps_read == (8 if deep else 0)


def test_after_maintenance_every_byte_is_referenced(local: Place, build: Build) -> None:
    from datetime import timedelta

    build(local).maintain(keep=timedelta(0))
    report = check(local, deep=True)
    assert report.findings == []
    for said in report.tables.values():
        assert said.bytes - said.bytes_referenced <= 0.05 * said.bytes
        assert said.versions == 1


def test_an_empty_warehouse(local: Place) -> None:
    local.open()
    assert check(local, deep=True).findings == []


@pytest.mark.parametrize("how", ["truncated", "missing", "overwritten"])
def test_a_damaged_file_is_named_and_the_rest_is_read(local: Place, build: Build, how: str) -> None:
    warehouse = build(local)
    victim = next(path for path in files(warehouse, "events") if path.stat().st_size > 2000)
    data = victim.read_bytes()
    if how == "missing":
        victim.unlink()
    else:
        victim.write_bytes(data[: len(data) // 2] if how == "truncated" else b"\xff" * len(data))
    finding = only(check(local))
    assert finding.where.endswith("events.lance")
    assert f"data/{victim.name}" in finding.what
    assert {"truncated": f"{len(data) // 2} of {len(data)} bytes", "missing": "not there"}.get(how, "") in finding.what
    report = check(local, deep=True)
    assert report.steps_read == 8
    assert only(report).what == finding.what
    assert report.tables["events"].rows > 0, "the other fragments"


def test_pages_are_read_with_deep(local: Place, build: Build) -> None:
    """A column that no other check looks at."""
    warehouse = build(local)
    victim = max(files(warehouse, "payloads"), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[64:96] = bytes(32)
    victim.write_bytes(data)
    report = check(local, deep=True)
    assert any(
        finding.where.endswith("payloads.lance") and victim.name in finding.what for finding in report.findings
    ) or any(
        "cannot be restored" in finding.what or "not what was stored" in finding.what for finding in report.findings
    )
    assert not report.ok


def test_damage_to_steps_reaches_what_refers_to_them(local: Place, build: Build) -> None:
    warehouse = build(local)
    steps = warehouse.tables["steps"].dataset
    first = steps.to_table(columns=["step_id"], filter="step_id = 'one.0'", with_row_address=True)
    place = first["_rowaddr"][0].as_py() >> 32
    damaged = steps.get_fragment(place)
    assert damaged is not None
    victim = Path(local.uri) / "steps.lance" / "data" / damaged.data_files()[0].path
    victim.write_bytes(victim.read_bytes()[:-100])
    said = [finding.what for finding in check(local, deep=True).findings]
    assert any(victim.name in what for what in said)
    assert any("steps are stored as differences to steps that are not there" in what for what in said)
    assert any("steps of datasets are not there" in what for what in said)
    assert any("cannot be restored" in what for what in said)


def test_a_table_that_is_gone(local: Place, build: Build) -> None:
    build(local)
    (Path(local.uri) / "exchanges.lance").rename(Path(local.uri) / "elsewhere")
    report = check(local)
    assert only(report).where == "exchanges"
    assert report.tables["steps"].rows == 8


def test_a_lost_base(local: Place, build: Build) -> None:
    warehouse = build(local)
    change(warehouse, "steps", "step_id = 'two.2'")
    finding = only(check(local))
    assert finding.what == "1 steps are stored as differences to steps that are not there, first two.3"
    assert finding.ids == ("two.3",)
    report = check(local, deep=True)
    assert any("1 steps cannot be restored; " in one.what and "two.3" in one.what for one in report.findings)
    assert report.steps_read == 6, "without the one that is gone and the one that needs it"


def test_a_base_of_somebody_else(local: Place, build: Build) -> None:
    warehouse = build(local)
    add(warehouse, "steps", step_id="x", trajectory_id="x", base_id="one.0", base_depth=1, producer=None)
    add(warehouse, "steps", step_id="y", trajectory_id="y", base_id="y", base_depth=1, producer=None)
    assert (
        "2 steps are stored as differences to steps of another trajectory, or in a circle, first x"
        in only(check(local)).what
    )


def test_a_lost_payload(local: Place, build: Build) -> None:
    warehouse = build(local)
    change(warehouse, "payloads", "ledger IS NULL")
    assert "references of steps to payloads that are not there" in only(check(local)).what
    said = [finding.what for finding in check(local, deep=True).findings]
    assert any("cannot be restored" in what for what in said)


def test_one_lost_payload_is_named_by_who_needs_it_and_the_rest_is_read(local: Place, build: Build) -> None:
    warehouse = build(local)
    rows = warehouse.tables["steps"].dataset.to_table(["step_id", "payload_ids"], "step_id = 'one.0'").to_pylist()
    change(warehouse, "payloads", f"payload_id = '{rows[0]['payload_ids'][0]}'")
    shallow, deep = check(local), check(local, deep=True)
    assert "first one.0" in only(shallow).what and set(only(shallow).ids) >= {"one.0"}
    assert all(id_.startswith("one.") for id_ in only(shallow).ids)
    assert any("4 steps cannot be restored; " in one.what for one in deep.findings)
    assert deep.steps_read == 4, "those of the other trajectory"
    assert not any(one.where.startswith("d@") for one in deep.findings)


def test_a_changed_step(local: Place, build: Build) -> None:
    warehouse = build(local)
    steps = warehouse.tables["steps"]
    steps.dataset.update({"response": '\'{"role":"assistant","content":[]}\''}, where="step_id = 'one.3'")
    assert check(local).ok, "that takes reading"
    assert "1 steps are not what was stored, first one.3" in only(check(local, deep=True)).what


def test_a_changed_hash_shows_in_datasets(local: Place, build: Build) -> None:
    warehouse = build(local)
    fake = content_hash(0, None, None, [], b"", b"")
    warehouse.tables["steps"].dataset.update({"content_hash": f"'{fake}'"}, where="step_id = 'one.0'")
    assert only(check(local)).what == "1 steps of datasets have another content than was frozen, first d@1: one.0"


def test_a_dataset_that_was_changed(local: Place, build: Build) -> None:
    warehouse = build(local)
    warehouse.tables["dataset_rows"].dataset.update({"step_reward": "7.0"}, where="step_id = 'one.0'")
    assert (only(check(local)).where, only(check(local)).what) == ("d@1", "its rows do not give its fingerprint")


def test_files_that_go_while_they_are_looked_at_are_no_damage(
    local: Place, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written anew by `stepwell forget`, say, and their old versions removed."""
    warehouse, looks = build(local), list[int]()
    real = check_rows

    def slow(*values: Any) -> None:
        looks.append(1)
        if len(looks) <= times:
            warehouse.tables["events"].add(lambda: pa.Table.from_pylist([row], schema=EVENTS.schema))
            row["event_id"] += "x"
            warehouse.maintain(keep=timedelta(0))
        real(*values)

    row: dict[str, Any] = {"event_id": "e", "kind": "note", "target_kind": "step", "target_id": "one.0"}
    monkeypatch.setattr(verifying, "check_rows", slow)
    times = 1
    assert check(local).ok and len(looks) == 2
    looks.clear()
    times = 99
    assert any("cannot be read" in one.what for one in check(local).findings) and len(looks) == 8


@pytest.mark.parametrize("gone", [False, True])
def test_versions_that_come_and_go_while_files_are_listed_are_no_damage(
    local: Place, build: Build, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    warehouse, real = build(local), looking._used
    row: dict[str, Any] = {"event_id": "e", "kind": "note", "target_kind": "step", "target_id": "one.0"}

    def slow(sound: looking.Sound, *values: Any) -> set[str] | None:
        if sound.table.spec is not EVENTS:
            return real(sound, *values)
        for number in range(2):
            row["event_id"] = f"e{number}"
            warehouse.tables["events"].add(lambda: pa.Table.from_pylist([row], schema=EVENTS.schema))
        used = real(sound, *values)
        if gone:
            warehouse.maintain(keep=timedelta(0))
        return used

    monkeypatch.setattr(looking, "_used", slow)
    assert not [one for one in check(local).findings if "of an older version is not there" in one.what]


def test_a_ledger_that_goes_while_it_is_looked_at_is_no_damage(
    local: Place, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows were read, and its file is gone when its marks are asked for."""
    build(local)
    real, gone = LedgerTable.marks, [OSError("Not found: a file")]

    def marks(self: LedgerTable) -> Marks:
        if self.spec is EVENTS and gone:
            raise FileGone.by(gone.pop())
        return real(self)

    monkeypatch.setattr(LedgerTable, "marks", marks)
    assert check(local).ok and not gone


def test_a_dataset_that_lost_rows(local: Place, build: Build) -> None:
    change(build(local), "dataset_rows", "step_id = 'one.0'")
    assert only(check(local)).what == "it has 3 of 4 rows"


def test_a_dataset_of_which_something_was_forgotten_says_so(local: Place, build: Build) -> None:
    warehouse = build(local)
    noted = f"'{orjson.dumps({'columns': [], 'forgotten': {'steps': 1, 'peers': 0}}).decode()}'"
    warehouse.tables["datasets"].dataset.update({"lineage": noted}, where="name = 'd'")
    change(warehouse, "steps", "step_id = 'one.0'")
    change(warehouse, "steps", "trajectory_id = 'one'")
    report = check(local)
    assert report.ok
    assert [str(finding) for finding in report.findings] == ["note  d@1: incomplete, 1 steps forgotten"]


def test_keys_and_ledgers(local: Place, build: Build) -> None:
    warehouse = build(local)
    [producer] = warehouse.marks()
    add(warehouse, "events", event_id="e", producer=producer, sequence=1)
    add(warehouse, "events", event_id="e", producer=producer, sequence=1)
    assert "1 keys are there more than once, first e" in only(check(local)).what
    change(warehouse, "events", "event_id = 'e'")
    add(warehouse, "events", event_id="f", producer=producer, sequence=10_000)
    report = check(local)
    assert only(report).what == "1 rows are above their table's ledger, first f"
    assert "1 rows are written and not committed yet" in " ".join(finding.what for finding in report.findings)


def test_a_lost_ledger_row(local: Place, build: Build) -> None:
    change(build(local), "events", "ledger IS NOT NULL")
    report = check(local)
    assert any("it has 0 ledger rows instead of one" in finding.what for finding in report.findings)


def test_commits_that_leave_something_out(local: Place, build: Build) -> None:
    warehouse = build(local)
    change(warehouse, "commits", "`commit` = 2")
    assert "1 commits do not go on where the one before them ended, first 3." in only(check(local)).what


@pytest.mark.parametrize("ranges", [[(1, 0, 5), (2, 5, 5)], [(2, 0, 5), (1, 5, 9)], [(1, 0, 5), (2, 4, 9)]])
def test_commits_that_cannot_be(local: Place, ranges: list[tuple[int, int, int]]) -> None:
    """An empty one; one before the one that it goes on from; two with the same record."""
    commits = local.open().tables["commits"]
    rows = [
        {"commit_id": f"{place}.p", "commit": number, "after": after, "producer": "p", "sequence": upto}
        for place, (number, after, upto) in enumerate(ranges)
    ]
    commits.commit(pa.Table.from_pylist(rows, schema=commits.spec.schema), {"p": ranges[-1][2]}, 2)
    assert "1 commits do not go on where the one before them ended" in only(check(local)).what


def test_marks_of_commits(local: Place, build: Build) -> None:
    warehouse = build(local)
    warehouse.tables["commits"].commit([], {"stranger": 5})
    assert only(check(local)).what == "1 producers' marks in the ledger are not those of the rows, first stranger"


def test_payloads_that_are_there_twice_are_no_fault(local: Place, build: Build) -> None:
    warehouse = build(local)
    row = warehouse.tables["payloads"].dataset.to_table(filter="ledger IS NULL", limit=1).to_pylist()[0]
    add(warehouse, "payloads", **row)
    report = check(local, deep=True)
    assert report.ok
    assert [str(finding)[:5] for finding in report.findings] == ["note "]


def test_what_is_announced_is_no_orphan(local: Place, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepwell.warehouse._verify import files as verifying

    warehouse = build(local)
    monkeypatch.setattr(verifying, "_LITTLE", 0)
    monkeypatch.setattr(verifying, "_UNREFERENCED", 0.0)
    steps = warehouse.tables["steps"]
    made = steps.write(pa.Table.from_pylist([{"step_id": "later"}], schema=steps.spec.schema))
    name = f"data/{orjson.loads(made[0])['files'][0]['path']}"
    report = check(local)
    assert report.ok and [finding.ids for finding in report.findings] == [(name,)]
    old = verify(local.uri, {}, now=lambda: time.time() + 9 * 24 * 3600)
    assert "for more than a week" in only(old).what
    Inbox(objects_at(local.uri, {})).announce(Flush("w", 1, {"p": (0, 1)}, {"steps": made}))
    report = check(local)
    assert report.findings == []
    assert report.tables["steps"].bytes_announced == (Path(steps.uri) / name).stat().st_size


def test_the_inbox(local: Place) -> None:
    local.open()
    objects_at(local.uri, {}).put("_inbox/w/000000000001", b"?")
    assert "1 announcements cannot be read, first _inbox/w/000000000001" in only(check(local)).what


def test_litter(local: Place) -> None:
    local.open()
    (Path(local.uri) / ".stepwell-probe-1").touch()
    report = verify(local.uri, {}, now=lambda: datetime.now(UTC).timestamp() + 7200)
    assert report.ok
    assert "1 objects were left by interrupted work" in report.findings[0].what


def test_a_newer_table(local: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    local.open()
    from stepwell.warehouse._tables import table as _table

    monkeypatch.setattr(_table, "SCHEMA_VERSION", 1)
    report = check(local)
    assert len(report.findings) == len(TABLES)
    assert "upgrade Stepwell" in report.findings[0].what


@pytest.mark.parametrize(("version", "do"), [("9", "upgrade Stepwell"), ("1", "stepwell migrate")])
def test_one_table_of_another_schema_is_named_and_the_others_are_checked(
    local: Place, build: Build, version: str, do: str
) -> None:
    warehouse = build(local)
    events = warehouse.tables["events"].dataset
    events.update_schema_metadata({"stepwell:schema": version}, replace=True)
    report = check(local, deep=True)
    assert only(report).where == "events"
    assert f"has schema {version}" in only(report).what and do in only(report).what
    assert (report.steps_read, report.tables["payloads"].rows > 0, report.datasets) == (8, True, 1)


def test_bytes_that_belong_to_nothing(local: Place, build: Build) -> None:
    """More than five per cent: a note while it may be under way, a fault when clean-up should have had it."""
    warehouse = build(local)
    left = Path(local.uri) / "steps.lance" / "data" / "left.lance"
    left.write_bytes(bytes(2 << 20))
    report = check(local, deep=True)
    [said] = report.findings
    assert report.ok and "bytes, in 1 files, belong to no version" in said.what
    assert said.ids == ("data/left.lance",)
    steps = report.tables["steps"]
    assert steps.bytes - steps.bytes_referenced >= 2 << 20
    later = verify(local.uri, {}, now=lambda: time.time() + 9 * 24 * 3600)
    assert "for more than a week" in only(later).what
    assert later.tables["steps"].rows == 8 and warehouse.tables.keys() == later.tables.keys()
    left.write_bytes(bytes(1000))
    assert check(local).findings == [], "less than five per cent, or than a megabyte"


def test_a_store_that_is_away(tmp_path: Path) -> None:
    report = verify(str(tmp_path / "nowhere"), {})
    assert not report.ok
