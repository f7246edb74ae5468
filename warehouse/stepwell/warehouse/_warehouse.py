"""The warehouse: its tables at one place, local or on an object store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.warehouse._datasets.datasets import Datasets
from stepwell.warehouse._query.contents import HASHED, with_content
from stepwell.warehouse._query.page_rows import PageRows
from stepwell.warehouse._query.query import run_query
from stepwell.warehouse._query.rows import rows_about
from stepwell.warehouse._query.search import saying, search
from stepwell.warehouse._query.stream import Selection, in_order_of
from stepwell.warehouse._query.views import TRAINING_ORDER
from stepwell.warehouse._restore.payloads import Payloads
from stepwell.warehouse._store.credentials import seen_by_lance
from stepwell.warehouse._store.s3 import check_store, is_object_store
from stepwell.warehouse._tables.ledger import LedgerTable, Marks
from stepwell.warehouse._tables.schema import COMMITS, STEPS, SUMMARIES, TABLES
from stepwell.warehouse._tables.table import FileGone, guarded, new_session
from stepwell.warehouse._tables.versions import At, History, number_of
from stepwell.warehouse._upkeep.done import Maintenance
from stepwell.warehouse._upkeep.maintain import KEPT, Maintainer
from stepwell.warehouse._upkeep.storage import storage
from stepwell.warehouse._upkeep.summaries import Summaries, about_summaries

_ATTEMPTS = 5
"""Looks at a warehouse from which files are removed that are being read."""


class Warehouse:
    """Steps, events and datasets, readable at the newest committed state. Open it with `Warehouse.open`.

    An object is for one thread at a time; readers in several threads or processes open their own.
    """

    def __init__(self, uri: str, tables: Mapping[str, LedgerTable], storage_options: Mapping[str, str]) -> None:
        self.uri = uri
        self.storage_options = storage_options
        self.tables = tables
        self.payloads = Payloads(lambda: self.tables["payloads"].dataset)
        """Finds what steps have stored apart."""
        self.summaries = Summaries(self.tables)
        """The views `trajectories` and `groups` as they were kept."""
        self._pages = PageRows(self.tables)

    @classmethod
    def open(cls, uri: str | Path, *, storage_options: Mapping[str, str] | None = None, create: bool = True) -> Self:
        """Open the warehouse at a folder or `s3://bucket/prefix`, creating its tables where they are missing.

        `storage_options` are Lance's (`aws_endpoint`, `aws_region`, …); credentials may come from the AWS environment.

        Raises:
            StoreError: the place cannot be reached or used, or is empty and `create` is False.
        """
        root, options = str(uri), dict(storage_options or {})
        if is_object_store(root):
            options = seen_by_lance(options)
            check_store(root, options, write=create)
        elif create:
            _make_folder(Path(root))
        elif not (Path(root) / f"{COMMITS.name}.lance").exists():
            raise StoreError(f"there is no warehouse at {root}; `stepwell up` or `stepwell demo` makes one")
        session = new_session()
        tables = {spec.name: LedgerTable(spec, root, options, create=create, session=session) for spec in TABLES}
        return cls(root, tables, options)

    @cached_property
    def datasets(self) -> Datasets:
        """Named, frozen, versioned selections for training."""
        return Datasets(self)

    def refresh(self) -> None:
        """Look at the newest committed state."""
        # Summaries are of commits that are there, so they come before those; what these call committed is then sure to be in the rest.
        first = (*SUMMARIES, COMMITS)
        for spec in first:
            self.tables[spec.name].refresh()
        others = [table for table in self.tables.values() if table.spec not in first]
        if not is_object_store(self.uri):
            for table in others:
                table.refresh()
            return
        with ThreadPoolExecutor(len(others)) as pool:  # each is a request, and far away
            list(pool.map(LedgerTable.refresh, others))

    def marks(self) -> Marks:
        """Each producer's record number up to which everything is committed. Looks at the newest state."""
        self.tables["commits"].refresh()
        return self.tables["commits"].marks()

    def wait_for(self, marks: Mapping[str, int], timeout: float) -> Marks:
        """The barrier: return when everything up to `marks` is committed; what is still missing after `timeout` seconds.

        An empty answer means that all of it is there. `stepwell.spool.marks(folder)` says what was accepted so far.
        """
        deadline = time.monotonic() + timeout
        while True:
            committed = self.marks()
            missing = {producer: mark for producer, mark in marks.items() if committed.get(producer, 0) < mark}
            if not missing or time.monotonic() >= deadline:
                self.refresh()
                return missing
            time.sleep(0.05)

    def maintain(
        self, *, keep: timedelta = KEPT, keep_raw: timedelta | None = None, dry_run: bool = False
    ) -> Maintenance:
        """Compact every table, extend indices, sweep payloads, remove versions that were superseded `keep` ago; says what it did.

        Ingest does so by itself as it works, and this may run beside it. Readers of versions that old fail: `keep` is to be longer
        than the longest of them. What fails is in the answer. `keep_raw`: raw calls that are older go, too. `dry_run`: say what there
        is to do, and do nothing.
        """
        self.refresh()
        maintainer = Maintainer(
            self.uri, self.tables, self.storage_options, keep=keep, keep_raw=keep_raw, many=2, full=True
        )
        return maintainer.round(dry_run=dry_run, measured=True)

    def query(self, sql: str, at: At = None) -> pa.Table:
        """The answer to one read-only SQL statement over the views, at the newest state or at the version `at`.

        A version is a commit's number, `name@version` of a dataset, or a moment (ISO 8601 or a datetime): the last commit until then.

        Raises:
            StepwellError: the statement is not valid, not a query, or fails; there is no such version.
        """
        for _ in range(_ATTEMPTS - 1):
            self.refresh()
            with suppress(
                FileGone
            ):  # written anew meanwhile, as `stepwell forget` does; the newest version has it, if it is still there
                return self._query(sql, at)
        self.refresh()
        return self._query(sql, at)

    def version(self, at: At = None) -> int:
        """The number of the commit that `at` means (see `query`), by default of the newest.

        Raises:
            InvalidRecord: there is no such version.
            StoreError: there is no such dataset.
        """
        self.tables["commits"].refresh()
        return self._number(at)

    def steps(
        self, where: str | None = None, *, columns: Sequence[str] | None = None, at: At = None
    ) -> pa.RecordBatchReader:
        """Steps with whole prompts, streamed: `.read_all()` makes a table of what fits into memory.

        `where` is a condition over the view `steps`; `columns` are all of that view by default, `prompt_ids`, `messages` and `tools` among
        them. Rows come in the order group, trajectory, commit. `at`: see `query`.

        Raises:
            StepwellError: the condition is no valid SQL; there is no such column or version.
        """
        self.refresh()
        selection = Selection(self.tables["steps"].dataset, columns)
        condition = f"WHERE ({where}\n)" if where else ""
        rows = self._query(f"SELECT {selection.sql} FROM steps s {condition} ORDER BY {TRAINING_ORDER}", at)
        return selection.stream(rows, self.payloads)

    def whole(self, step_ids: Sequence[str], columns: Sequence[str] | None = None, at: At = None) -> pa.Table:
        """The steps of these ids, in this order, with whole prompts. Ids that are not there are left out."""
        self.refresh()
        selection = Selection(self.tables["steps"].dataset, columns)
        within = rows_about(self.tables, STEPS.key, step_ids, selection.names)
        found = run_query(
            self.tables,
            f"SELECT {selection.sql} FROM steps s",
            history=self._history,
            at=self._number(at),
            within=within,
        )
        return selection.stream(in_order_of(found, step_ids), self.payloads).read_all()

    def restored(self, rows: pa.Table, columns: Sequence[str], *, hashed: bool = False) -> pa.RecordBatchReader:
        """The steps of `rows` (`step_id` and `trajectory_id`, as a query gave them) in that order, whole, without another query.

        `columns` are those that are stored or restored, such as `prompt_ids`, `response_ids` and `logprobs`: nothing is resolved. Beside
        those of the view: `media`, the content hashes of what messages and response show beside text, in order (list of string; null
        without messages, an item null where only a link is known); `plain_messages`, the messages without the data of those.
        `hashed`: with a column `content` behind these, the hash of what each step holds now, texts and all, to be compared with
        `content_hash`, which is of what came.

        Raises:
            InvalidRecord: steps have no such column, or it is one that is resolved.
            StoreError: while it is read, where a step is gone or cannot be restored.
        """
        for name in ("steps", "payloads"):
            self.tables[name].refresh()
        wanted = [*columns, *HASHED] if hashed else columns
        found = Selection(self.tables["steps"].dataset, wanted).restored(rows, self.payloads)
        return with_content(found, columns) if hashed else found

    def search(self, text: str, limit: int = 20) -> pa.Table:
        """The steps that say one of the words of `text`, the best first: step_id, trajectory_id, score (BM25), snippet.

        A step is found by what it added to the conversation. Parts above two kilobytes are not searched.

        Raises:
            InvalidRecord: there is no word in `text`, or `limit` is not positive.
            StoreError: the store failed.
        """
        self.refresh()
        return search(self.tables["steps"].dataset, self._history.marks(), text, limit)

    def saying(self, text: str, most: int = 10_000) -> tuple[list[str], bool]:
        """The ids of the steps that say every word of `text`, and whether these are all there are: at most `most` are looked for.

        All words are in what the step added to the conversation, or all in its answer. Parts above two kilobytes are not searched.

        Raises:
            InvalidRecord: there is no word in `text`.
            StoreError: the store failed.
        """
        self.refresh()
        return saying(self.tables["steps"].dataset, self._history.marks(), text, most)

    def forgettings(self) -> int:
        """A number that grows whenever something was taken away: whoever keeps what was read asks for all of it anew."""
        self.tables["forgotten"].refresh()
        version: int = self.tables["forgotten"].dataset.version
        return version

    def storage(self) -> list[dict[str, Any]]:
        """By table: rows, bytes, fragments, versions, indices, and the tags that keep old versions. Raises StoreError."""
        return storage(self.tables)

    def summarise(self) -> int:
        """Bring the summaries to the newest commit, as ingest does by itself; how many trajectories that took.

        Raises:
            CommitConflict: another process does the same.
            StoreError: the store failed.
        """
        self.refresh()
        return self.summaries.update(self._history)

    @property
    def _history(self) -> History:
        """As of the last look at `commits`."""
        return History.read(self.tables["commits"].dataset)

    def _number(self, at: At) -> int:
        return number_of(at, self._history, lambda name, version: self.datasets.get(name, version).at_commit)

    def _query(self, sql: str, at: At) -> pa.Table:
        return guarded(self.uri, self._answer, sql, at)

    def _answer(self, sql: str, at: At) -> pa.Table:
        history, number = self._history, self._number(at)
        about = about_summaries(sql) if number == history.number else frozenset()
        kept = self.summaries.kept(history, groups="groups" in about) if about else None
        found = None if about else self._pages.answer(sql, history, number)
        return run_query(self.tables, sql, history=history, at=number, kept=kept) if found is None else found


def _make_folder(root: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the warehouse folder {root}: {error}") from error
