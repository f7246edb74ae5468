"""Copies between stores: whole, incremental, resumable, consistent while the source is written, and never over somebody else's data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.stores import Endpoint, FaultyStore, Place, faulty_store

from stepwell.errors import StoreError
from stepwell.warehouse import Ingest
from stepwell.warehouse._copy import copy as copying
from stepwell.warehouse._copy.copy import MARKER, Copied, Copy
from stepwell.warehouse._copy.ends import FolderEnd, Gone, transfer
from stepwell.warehouse._copy.source import look, version_of
from stepwell.warehouse._datasets.forgotten import mark
from stepwell.warehouse._forget import forget as forgetting
from stepwell.warehouse._forget import tables as purging
from stepwell.warehouse._forget.forget import Forget
from stepwell.warehouse._store.lease import Lease
from stepwell.warehouse._store.objects import objects_at

SECRET = "Rumpelstilzchen"
KINDS = ("local", "s3")
SQL = 'SELECT step_id, "commit", step_reward, messages, prompt_ids FROM steps ORDER BY step_id'


@pytest.fixture
def other(tmp_path: Path, moto_endpoint: Endpoint) -> Callable[[str], Place]:
    """An empty place of a kind."""
    return lambda kind: Place(str(tmp_path / "copy")) if kind == "local" else moto_endpoint.place()


@pytest.fixture
def filled(anywhere: Place, spools: Path, feed: Any, drained: Callable[[Ingest], int]) -> Callable[[], None]:
    """Each call adds two steps, a reward and a dataset to the warehouse at `anywhere`."""

    def add() -> None:
        first = feed.exchange([{"role": "user", "content": "x" * 3000}], "a", "t")
        feed.exchange([{"role": "user", "content": "q"}], "b", "u")
        feed.feedback(step_id=first, reward=1.0)
        drained(Ingest(anywhere.open(), spools))
        anywhere.open().datasets.create("d", "true")

    return add


def run(source: Place, target: Place, **more: Any) -> Copied:
    return Copy((source.uri, source.options), (target.uri, target.options), patience=0.3, **more).run()


def same(one: Place, two: Place) -> None:
    answers = [place.open(create=False).query(SQL) for place in (one, two)]
    assert answers[0].num_rows
    assert answers[0].equals(answers[1])
    assert two.open(create=False).datasets.read("d").num_rows == one.open(create=False).datasets.read("d").num_rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_the_same_warehouse_and_the_next_one_moves_what_is_new(
    anywhere: Place, filled: Callable[[], None], other: Callable[[str], Place], kind: str
) -> None:
    target = other(kind)
    filled()
    first = run(anywhere, target)
    same(anywhere, target)
    assert first.there == 0
    again = run(anywhere, target)
    assert (again.files - len(first.versions) <= 0, again.bytes) == (True, 0)
    filled()
    more = run(anywhere, target)
    same(anywhere, target)
    assert more.there == first.there + again.there
    assert 0 < more.bytes < 3 * first.bytes


def test_versions_and_tags_come_along(
    local: Place, filled: Callable[[], None], anywhere: Place, tmp_path: Path
) -> None:
    if anywhere.uri != local.uri:
        pytest.skip("once is enough")
    filled()
    local.open().datasets.create("pinned", "true", pin=True)
    target = Place(str(tmp_path / "copy"))
    run(local, target)
    tables = [place.open().tables["steps"].dataset for place in (local, target)]
    assert [v["version"] for v in tables[0].versions()] == [v["version"] for v in tables[1].versions()]
    assert list(tables[1].tags.list()) == ["stepwell-pinned-v1"]
    local.open().datasets.delete("pinned", 1, force=True)
    run(local, target)
    assert not target.open().tables["steps"].dataset.tags.list()


class TestInterrupted:
    def test_what_is_copied_stays_and_is_not_seen(
        self, local: Place, spools: Path, feed: Any, drained: Any, faulty: FaultyStore
    ) -> None:
        feed.exchange([{"role": "user", "content": "q"}], "b", "u")
        drained(Ingest(local.open(), spools))
        local.open().datasets.create("d", "true")
        target = faulty.place()
        rule = faulty.faults.add(
            "status", methods=("PUT",), path=r"steps\.lance/_versions", status=403, code="AccessDenied"
        )
        with pytest.raises(StoreError, match=r"steps\.lance"):
            run(local, target)
        with pytest.raises(StoreError, match="there is no"):
            target.open(create=False)
        faulty.faults.remove(rule)
        run(local, target)
        same(local, target)

    def test_half_a_file_is_copied_again(self, local: Place, tmp_path: Path) -> None:
        target = Place(str(tmp_path / "copy"))
        run(local, target)
        broken = next((tmp_path / "copy" / "steps.lance" / "data").iterdir())
        whole = broken.read_bytes()
        broken.write_bytes(whole[:10])
        assert run(local, target).bytes == len(whole)
        assert broken.read_bytes() == whole


class TestWhileTheSourceIsWritten:
    def test_no_row_of_the_copy_lacks_what_it_refers_to(
        self, local: Place, spools: Path, feed: Any, drained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A commit lands between any two looks at the source's tables."""
        worker = Ingest(local.open(), spools)
        listed = FolderEnd.sizes

        def busy(self: FolderEnd, prefix: str) -> dict[str, int]:
            found = listed(self, prefix)
            feed.exchange([{"role": "user", "content": f"{prefix} " + "x" * 3000}], "a", "t")
            drained(worker)
            return found

        drained(worker)
        with monkeypatch.context() as patch:
            patch.setattr(FolderEnd, "sizes", busy)
            run(local, Place(str(tmp_path / "copy")))
        copy = Place(str(tmp_path / "copy")).open()
        number = copy.version()
        assert number > 0
        assert copy.query("SELECT count(*) n FROM steps")["n"][0].as_py() == number
        assert copy.steps(columns=["messages"]).read_all().num_rows == number

    def test_a_file_that_is_cleaned_up_meanwhile_is_looked_for_again(
        self, local: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = list[str]()

        def gone_once(source: Any, target: Any, key: str) -> None:
            if not said and key.startswith("steps.lance/data"):
                raise Gone(key)
            transfer(source, target, key)

        monkeypatch.setattr(copying, "transfer", gone_once)
        run(local, Place(str(tmp_path / "copy")), say=said.append)
        assert "looking again" in said[0]
        assert Place(str(tmp_path / "copy")).open(create=False).version() == 0

    def test_it_gives_up_at_last(self, local: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def gone(source: Any, target: Any, key: str) -> None:
            raise Gone(key)

        monkeypatch.setattr(copying, "transfer", gone)
        with pytest.raises(StoreError, match="changes faster"):
            run(local, Place(str(tmp_path / "copy")))


class TestRefused:
    def test_a_warehouse_that_is_no_copy(self, local: Place, tmp_path: Path) -> None:
        target = Place(str(tmp_path / "other"))
        target.open()
        with pytest.raises(StoreError, match="no copy"):
            run(local, target)

    def test_a_copy_that_was_written_since(
        self, local: Place, tmp_path: Path, spools: Path, feed: Any, drained: Any
    ) -> None:
        target = Place(str(tmp_path / "copy"))
        run(local, target)
        feed.exchange([{"role": "user", "content": "q"}])
        drained(Ingest(target.open(), spools))
        for path in (tmp_path / "copy" / "_lease").iterdir():
            path.unlink()
        with pytest.raises(StoreError, match="somebody else"):
            run(local, target)

    def test_a_copy_of_another_warehouse(self, local: Place, tmp_path: Path) -> None:
        target, another = Place(str(tmp_path / "copy")), Place(str(tmp_path / "another"))
        another.open()
        run(another, target)
        with pytest.raises(StoreError, match="another warehouse"):
            run(local, target)

    def test_a_place_that_an_ingest_holds(self, local: Place, tmp_path: Path) -> None:
        target = Place(str(tmp_path / "copy"))
        run(local, target)
        lease = Lease(objects_at(target.uri, {}), "ingest", beat=0.0)
        assert lease.hold()

        def beating(_: float) -> None:
            lease.hold()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("stepwell.warehouse._copy.copy.time.sleep", beating)
            with pytest.raises(StoreError, match="an ingest writes"):
                run(local, target)
        run(local, target)  # its holder is gone: it beats no more

    def test_what_is_no_warehouse(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="no warehouse"):
            run(Place(str(tmp_path / "nothing")), Place(str(tmp_path / "copy")))
        assert not (tmp_path / "copy").exists()

    def test_itself(self, local: Place) -> None:
        with pytest.raises(StoreError, match="onto itself"):
            run(local, Place(local.uri + "/"))


def test_pruning_removes_what_the_source_has_no_more(local: Place, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    run(local, Place(str(target)))
    old = target / "steps.lance" / "data" / "old.lance"
    old.write_bytes(b"x")
    assert run(local, Place(str(target))).removed == 0
    assert run(local, Place(str(target)), prune=True).removed == 1
    assert not old.exists()
    assert (target / MARKER).exists()


class TestForgotten:
    """What was forgotten at the source goes from the copy, whatever comes between the two."""

    @pytest.fixture
    def copied(self, local: Place, spools: Path, feed: Any, drained: Any, tmp_path: Path) -> Path:
        """A copy that has it."""
        feed.exchange([{"role": "user", "content": SECRET}], "a", "bad")
        feed.exchange([{"role": "user", "content": "q"}], "b", "good")
        drained(Ingest(local.open(), spools))
        target = tmp_path / "copy"
        run(local, Place(str(target)))
        assert holding(target)
        return target

    def test_with_the_next_copy(self, local: Place, copied: Path) -> None:
        Forget(local.open(), patience=10).run(["bad"])
        assert run(local, Place(str(copied))).removed > 0
        assert holding(copied) == []
        assert Place(str(copied)).open(create=False).query("SELECT * FROM steps").num_rows == 1
        local.open().maintain(keep=timedelta(0))
        assert run(local, Place(str(copied))).removed == 0, "once"

    @pytest.mark.parametrize("where", ["_publish", "_remove_others"])
    def test_when_that_one_is_interrupted(
        self, local: Place, copied: Path, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        Forget(local.open(), patience=10).run(["bad"])

        def fail(*_: object) -> int:
            raise StoreError("away")

        with monkeypatch.context() as patch, pytest.raises(StoreError, match="away"):
            patch.setattr(Copy, where, fail)
            run(local, Place(str(copied)))
        run(local, Place(str(copied)))
        assert holding(copied) == []

    def test_when_a_copy_is_made_before_the_rows_go(
        self, local: Place, copied: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = mark

        def between(*values: Any) -> Any:
            run(local, Place(str(copied)))
            return real(*values)

        with monkeypatch.context() as patch:
            patch.setattr(forgetting, "mark", between)
            Forget(local.open(), patience=10).run(["bad"])
        assert holding(copied), "or this tests nothing"
        run(local, Place(str(copied)))
        assert holding(copied) == []

    def test_when_a_copy_has_looked_at_the_tables_before(
        self, local: Place, copied: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = list[int]()

        def slow(*values: Any) -> Any:
            found = look(*values)
            if not done:
                done.append(1)
                Forget(local.open(), patience=10).run(["bad"])
            return found

        with monkeypatch.context() as patch:
            patch.setattr(copying, "look", slow)
            run(local, Place(str(copied)))
        run(local, Place(str(copied)))
        assert holding(copied) == []

    def test_when_tags_keep_what_a_copy_looked_at_halfway(
        self, local: Place, copied: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The steps are written anew without it, and their old versions are still there: the copy misses nothing afterwards."""
        halfway, real = list[Any](), purging._index_anew

        def between(table: Any, said: Any) -> None:
            real(table, said)
            if table.spec.name == "steps":
                for one in local.open().tables.values():
                    one.dataset.tags.create("kept", one.dataset.version)
                run(local, Place(str(copied)))
                halfway.extend(look(FolderEnd(Path(local.uri)), local.uri))

        def slow(*values: Any) -> Any:
            patch.setattr(copying, "look", look)
            Forget(local.open(), patience=10).run(["bad"])
            return halfway

        with monkeypatch.context() as patch:
            patch.setattr(purging, "_index_anew", between)
            patch.setattr(copying, "look", slow)
            run(local, Place(str(copied)))
        assert holding(copied), "or this tests nothing"
        run(local, Place(str(copied)))
        assert holding(copied) == []
        steps = Place(str(copied)).open(create=False).tables["steps"].dataset
        assert list(steps.tags.list()) == ["kept"]
        assert steps.checkout_version("kept").count_rows("ledger IS NULL") == 1


def holding(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_between_two_servers_it_streams(moto_endpoint: Endpoint, local: Place) -> None:
    """What one store cannot fetch from the other goes through this process."""
    with faulty_store(moto_endpoint) as far:
        first, second = moto_endpoint.place(), far.place()
        run(local, first)
        run(first, second)
        assert second.open(create=False).version() == 0
        assert not any("copy-source" in seen.path for seen in far.seen)


@pytest.mark.parametrize(
    ("key", "version"),
    [
        ("t.lance/_versions/18446744073709551614.manifest", 1),
        ("t.lance/_versions/7.manifest", 7),
        ("t.lance/_versions/latest_version_hint.json", None),
        ("t.lance/data/7.manifest", None),
    ],
)
def test_versions_by_their_names(key: str, version: int | None) -> None:
    assert version_of(key) == version


def test_a_damaged_marker_is_said(local: Place, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    run(local, Place(str(target)))
    (target / MARKER).write_bytes(b"{")
    with pytest.raises(StoreError, match="cannot be read"):
        run(local, Place(str(target)))
    shutil.rmtree(target)
