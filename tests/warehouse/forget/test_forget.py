"""Forgetting: no byte of it is left, the rest reads as before, and it does not come in again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores import Place
from tests.warehouse.forget.scene import SECRET, forget, found, tell, user

from stepwell.errors import DeliveryError, InvalidRecord, StoreError
from stepwell.spool import Entry, Spool, SpoolReader, SpoolWriter, read_cursor
from stepwell.warehouse import Ingest, IngestConfig, Warehouse, run_ingest
from stepwell.warehouse._commit.committer import Committer
from stepwell.warehouse._forget.forget import Forget
from stepwell.warehouse._forget.report import Forgotten
from stepwell.warehouse._forget.spools import purge_spools
from stepwell.warehouse._ingest.tombstones import bury
from stepwell.warehouse._parse.raw import Raw
from stepwell.warehouse._store.flush import Inbox
from stepwell.warehouse._store.lease import Lease
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._tables.versions import History
from stepwell.warehouse._upkeep.indices import INDICES, make


def test_no_byte_of_it_is_left(
    data: Path, new_feed: Callable[..., Any], ingest: Callable[[], int], warehouse: Warehouse
) -> None:
    """In tables, old versions, indices, pins, quarantine, spools: the text, the ids, and who said something about it."""
    feed = new_feed()
    steps = tell(feed, "bad-one")
    tell(feed, "good", text="fine")
    feed.trajectory("bad-one", metadata={"about": SECRET})
    feed.feedback(trajectory_id="bad-one", reward=1.0, author=SECRET)
    feed.feedback(step_id=steps[0], label=SECRET)
    feed.answer(feed.request([user(SECRET)], "bad-one"), SECRET.encode())  # no JSON: quarantined
    ingest()
    warehouse.refresh()
    for table, columns in INDICES.items():
        for column in columns if table in ("steps", "events") else ():
            make(warehouse.tables[table].dataset, table, column, None)
            warehouse.refresh()
    warehouse.datasets.create("d", "true", note="with bad-one", pin=True)
    warehouse.refresh()
    warehouse.summaries.update(History.read(warehouse.tables["commits"].dataset))
    assert warehouse.query("SELECT count(*) n FROM quarantine")["n"][0].as_py() == 1
    tell(feed, "bad-one", turns=1)  # not taken in yet
    feed.close()
    assert len(found(data, SECRET)) > 4

    done = forget(data, "bad-one")

    assert found(data, SECRET, "bad-one", *steps) == []
    assert (done.trajectories, done.steps, done.exchanges, done.spools_pending) == (["bad-one"], 4, 1, [])
    assert done.payloads == 1
    assert done.datasets == ["d@1"]
    assert {tag.partition(":")[0] for tag in done.tags} == {"steps", "events", "payloads"}
    warehouse.refresh()
    assert warehouse.query("SELECT DISTINCT trajectory_id t FROM steps")["t"].to_pylist() == ["good"]
    assert warehouse.query("SELECT count(*) n FROM trajectories")["n"][0].as_py() == 1
    assert warehouse.steps(columns=["messages"]).read_all()["messages"].null_count == 0
    assert {index.name for index in warehouse.tables["steps"].dataset.describe_indices()} == {
        f"{column}_idx" for column in INDICES["steps"]
    }


class TestTheRest:
    def test_steps_that_were_differences_to_it_read_as_before(
        self, data: Path, feed: Any, ingest: Callable[[], int], warehouse: Warehouse
    ) -> None:
        steps = tell(feed, "t", turns=5)
        ingest()
        before = warehouse.whole(steps)
        done = forget(data, where=f"step_id IN ('{steps[1]}', '{steps[2]}')")
        after = warehouse.whole(steps)
        assert after["step_id"].to_pylist() == [steps[0], *steps[3:]]
        kept = before.take([0, 3, 4])
        for column in ("prompt_ids", "messages", "tools", "response", "response_ids", "logprobs", "content_hash"):
            assert after[column].to_pylist() == kept[column].to_pylist(), column
        assert after["parent_id"].to_pylist() == [None, None, steps[3]]
        assert done.rebased == 1
        assert done.trajectories == []
        # Later prompts of the same conversation repeat what was said: they stay, and are named.
        assert done.quoted == {"t": sorted([*steps[3:]])}
        assert done.payloads == 0, "the large message is still referred to"

    def test_a_step_of_nothing_but_ids(
        self, data: Path, feed: Any, ingest: Callable[[], int], warehouse: Warehouse
    ) -> None:
        ids = list(range(100))
        for turn in range(3):
            more = {"prompt_ids": ids[: 100 + 50 * turn], "response_ids": list(range(40)), "logprobs": [-0.5] * 40}
            feed.step(step_id=f"s{turn}", trajectory_id="t", **more)
            ids += [*range(40), *range(500, 510)]
        ingest()
        forget(data, where="step_id = 's0'")
        whole = warehouse.whole(["s1", "s2"])
        assert [len(one) for one in whole["prompt_ids"].to_pylist()] == [150, 200]
        assert whole["messages"].to_pylist() == [None, None]

    def test_who_repeats_it_elsewhere_is_named_and_stays(
        self, data: Path, feed: Any, ingest: Callable[[], int]
    ) -> None:
        system = {"role": "system", "content": "be nice"}
        feed.exchange([system, user("secret question")], "secret answer", "bad")
        quoting = feed.exchange(
            [system, user("listen:"), {"role": "assistant", "content": "secret answer"}, user("?")], "x", "other"
        )
        feed.exchange([system, user("what else")], "y", "third")
        ingest()
        assert forget(data, "bad").quoted == {"other": [quoting]}

    def test_a_dataset_says_that_it_is_incomplete(
        self, data: Path, feed: Any, ingest: Callable[[], int], warehouse: Warehouse
    ) -> None:
        kept = tell(feed, "good", text="fine", turns=2)
        for name in ("bad", "worse", "peer"):
            feed.trajectory(name, group_id="g")
            feed.exchange([user("q")], "a", name)
            feed.feedback(trajectory_id=name, reward=1.0)
        ingest()
        warehouse.refresh()
        warehouse.datasets.create("touched", "trajectory_id <> 'peer'")
        warehouse.datasets.create("other", "trajectory_id = 'good'")
        forget(data, "bad")
        with pytest.raises(StoreError, match=r"touched@1 is incomplete, 1 steps forgotten"):
            warehouse.datasets.read("touched")
        assert warehouse.datasets.read("touched", allow_incomplete=True).num_rows == 3
        assert warehouse.datasets.read("other")["step_id"].to_pylist() == kept
        forget(data, "worse", "peer")
        with pytest.raises(StoreError, match=r"incomplete, 2 steps and 1 trajectories of its groups forgotten"):
            warehouse.datasets.read("touched")
        assert warehouse.datasets.get("touched").filter == "trajectory_id <> '[forgotten]'"


class TestNotAgain:
    def test_the_same_records_from_another_spool(
        self, data: Path, new_feed: Callable[..., Any], ingest: Callable[[], int], warehouse: Warehouse
    ) -> None:
        first = new_feed("one")
        steps = [first.step(step_id="s1", trajectory_id="bad"), first.exchange([user("q")], "a", id="e1")]
        label = first.feedback(step_id="s1", label="l")
        ingest()
        forget(data, "bad", where="step_id = 'e1.0'")
        again = new_feed("two")
        again.step(step_id="s1", trajectory_id="bad")
        again.step(step_id="s2", trajectory_id="bad")
        again.exchange([user("q")], "a", id="e1")
        again.feedback(feedback_id=label, step_id="s1", label="l")
        again.feedback(step_id="s1", reward=1.0)
        again.trajectory("bad", "completed")
        again.answer(again.request([user("q")], "bad"), b"no JSON")
        again.step(step_id="s3", trajectory_id="good")
        assert ingest() > 0
        assert len(steps) == 2
        assert warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist() == ["s3"]
        assert warehouse.query("SELECT * FROM events").num_rows == 0
        assert warehouse.query("SELECT * FROM quarantine").num_rows == 0

    def test_a_running_ingest_goes_on_from_what_is_left(
        self, data: Path, feed: Any, ingest: Callable[[], int], warehouse: Warehouse
    ) -> None:
        """Its memory has the forgotten steps as bases and parents of what comes next."""
        steps = tell(feed, "t", turns=3)
        ingest()
        forget(data, where=f"step_id = '{steps[2]}'")
        more = tell(feed, "t", turns=5)[3:]
        ingest()
        assert warehouse.whole(more)["step_id"].to_pylist() == more

    def test_a_flush_that_was_announced_before_is_written_anew(
        self,
        data: Path,
        feed: Any,
        local: Place,
        spools: Path,
        warehouse: Warehouse,
        drained: Callable[[Ingest], int],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("stepwell.warehouse._ingest.ingest._MISSED_AFTER", 0.0)
        feed.exchange([user(SECRET)], "a", "bad")
        feed.exchange([user("q")], "a", "good")
        other = Ingest(local.open(), spools)
        assert other.flush() > 0
        inbox = Inbox(objects_at(local.uri, {}))
        assert len(inbox.keys()) == 1
        # Without the data folder, as on another machine: the inbox is all that is known of that ingest.
        assert Forget(Warehouse.open(local.uri), None, patience=10).run(["bad"]) is not None
        assert inbox.keys() == []
        assert found(data / "warehouse", SECRET) == [], "the files of a flush that was refused"
        other.settle()
        drained(other)
        warehouse.refresh()
        assert warehouse.query("SELECT trajectory_id t FROM steps")["t"].to_pylist() == ["good"]

    def test_what_is_half_committed_is_waited_for_by_what_builds_on_it(
        self,
        feed: Any,
        local: Place,
        spools: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Its writer's memory goes with what is forgotten, and the tables do not have it yet."""
        monkeypatch.setattr("stepwell.warehouse._ingest.ingest._MISSED_AFTER", 0.0)
        worker, inbox = Ingest(local.open(), spools), Inbox(objects_at(local.uri, {}))
        talk = [user("y" * 3000)]
        first = feed.exchange(talk, "yes", "good", ids=([1, 2, 3], [4, 5]))
        assert worker.flush() == 2
        [flush] = inbox.read(inbox.keys())
        local.open().tables["payloads"].commit(flush.fragments["payloads"], {feed.producer: 2})
        bury(local.open().tables["forgotten"], {"trajectory": ["bad"]})
        talk = [*talk, {"role": "assistant", "content": "yes"}, user("more")]
        second = feed.exchange(talk, "no", "good", ids=([1, 2, 3, 4, 5, 6], [7]))
        assert worker.flush() == 0
        while not worker.settle():
            worker.run_once()
        whole = local.open().whole([first, second])
        assert whole["parent_id"].to_pylist() == [None, first]
        stored = local.open().tables["steps"].dataset.to_table(["step_id", "base_id"], f"step_id = '{second}'")
        assert stored["base_id"].to_pylist() == [first]

    def test_the_committer_refuses_a_flush_whose_writer_did_not_know(
        self, feed: Any, local: Place, spools: Path
    ) -> None:
        feed.exchange([user("q")], "a", "good")
        writer, warehouse = Ingest(local.open(), spools), local.open()
        inbox = Inbox(objects_at(local.uri, {}))
        assert writer.flush() > 0
        assert bury(warehouse.tables["forgotten"], {"trajectory": ["bad"]}) == 1
        assert Committer(local.open(), inbox).run_once() == 0
        assert (inbox.keys(), warehouse.marks()) == ([], {})


class TestBesideAStack:
    @pytest.fixture
    def running(self, data: Path) -> Iterator[None]:
        """The ingest process, as a thread."""
        stop, ready = threading.Event(), threading.Event()

        def work() -> None:
            config = IngestConfig(interval=0.02, idle=0.02)
            more: dict[str, Any] = {"beat": 0.2, "patience": 1.0}
            run_ingest(
                *(config,), data=data, warehouse=str(data / "warehouse"), storage_options={},
                ready=lambda _: ready.set(), stop=stop, **more,
            )  # fmt: skip

        thread = threading.Thread(target=work)
        thread.start()
        assert ready.wait(30)
        yield
        stop.set()
        thread.join(30)

    @pytest.mark.usefixtures("running")
    def test_ingest_and_a_producer_do_their_part(self, data: Path, spools: Path) -> None:
        spool = Spool(spools / "live.db")
        writer = SpoolWriter(spool, cursor=lambda producer: read_cursor(spools, producer))
        body = b'{"step_id": "s%d", "trajectory_id": "%s", "messages": [{"role": "user", "content": "%s"}], "response": "a"}'
        try:
            for number in range(40):
                whose, text = ((b"bad", SECRET.encode()), (b"good", b"fine"))[number % 2]
                writer.submit(Entry(id=f"step.s{number}", kind="step", body=body % (number, whose, text))).result(10)
            done = forget(data, "bad", patience=20)
            assert (done.steps, done.spools_pending) == (20, [])
            assert found(data, SECRET) == []
        finally:
            writer.close()
        assert Warehouse.open(data / "warehouse").query("SELECT * FROM steps").num_rows == 20


def test_a_dry_run_changes_nothing(data: Path, feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> None:
    steps = tell(feed, "t")
    ingest()
    seen: list[Forgotten] = []
    versions = {name: table.dataset.version for name, table in warehouse.tables.items()}

    def no(would: Forgotten) -> bool:
        seen.append(would)
        return False

    work = Forget(warehouse, data, patience=10)
    assert work.run([], f"step_id = '{steps[0]}'", confirm=no) is None
    assert (seen[0].steps, seen[0].rebased) == (1, 1)
    warehouse.refresh()
    assert {name: table.dataset.version for name, table in warehouse.tables.items()} == versions
    assert warehouse.whole(steps).num_rows == 3


def test_nothing_named_is_refused(warehouse: Warehouse) -> None:
    with pytest.raises(InvalidRecord):
        Forget(warehouse).run()


def test_a_committer_that_does_not_get_on_is_said(
    data: Path, feed: Any, local: Place, spools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.exchange([user("q")], "a", "forget-me")
    Ingest(local.open(), spools).flush()
    monkeypatch.setattr(Lease, "hold", lambda _: False)
    with pytest.raises(DeliveryError, match="run this again"):
        Forget(Warehouse.open(local.uri), None, patience=0.3).run(["forget-me"])
    monkeypatch.undo()
    assert Forget(Warehouse.open(local.uri), None, patience=10).run(["forget-me"]) is not None
    assert found(data / "warehouse", "forget-me") == []


def test_on_an_object_store(s3: Place, spools: Path, feed: Any, drained: Callable[[Ingest], int]) -> None:
    tell(feed, "bad")
    tell(feed, "good", text="fine")
    drained(Ingest(s3.open(), spools))
    done = Forget(s3.open(), None, patience=10).run(["bad"])
    assert done is not None
    assert done.steps == 3
    objects = objects_at(s3.uri, s3.options)
    keys = [key for folder in s3.open().tables for key, _ in objects.listed(f"{folder}.lance")]
    assert keys
    assert not [key for key in keys if SECRET.encode() in (objects.get(key) or b"")]
    assert s3.open().steps(columns=["messages"]).read_all().num_rows == 3


def test_a_spool_of_a_dead_producer_waits_for_what_is_not_committed(spools: Path) -> None:
    with Spool(spools / "dead.db") as spool:
        spool.append([Entry(id=f"e{n}", kind="step", body=SECRET.encode() * 50) for n in range(20)])
        producer = spool.producer
    assert purge_spools(spools, {producer: 10}, 0.0) == ["dead.db"]
    assert purge_spools(spools, {producer: 20}, 0.0) == []
    assert found(spools, SECRET) == []
    with SpoolReader(spools / "dead.db") as reader:
        assert (reader.last(), reader.read(0)) == (20, [])


def test_raw_calls_of_it_go_too(
    data: Path, feed: Any, warehouse: Warehouse, spools: Path, drained: Callable[[Ingest], int]
) -> None:
    tell(feed, "gone")
    feed.exchange([user("hello")], "hi", "left", id="left-call")
    drained(Ingest(warehouse, spools, raw=Raw("all")))
    count = "SELECT trajectory_id, count(*) AS n FROM exchanges GROUP BY ALL ORDER BY 1"
    assert warehouse.query(count).to_pylist() == [{"trajectory_id": "gone", "n": 3}, {"trajectory_id": "left", "n": 1}]
    forget(data, "gone")
    assert warehouse.query(count).to_pylist() == [{"trajectory_id": "left", "n": 1}]
    assert not found(Path(warehouse.uri), SECRET)
