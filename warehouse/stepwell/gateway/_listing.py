"""The steps as lists and figures are made of them: a few narrow columns of all of them, in memory.

Of a million steps that is some tens of megabytes, and any filter in any order a page within milliseconds, where the warehouse would look
through whole columns of files. It is made with one look at everything; later ones add what newer commits brought (see `_listing_news`),
when somebody asks and now and then by themselves. What is shown of a step is read from the warehouse, by its id.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from stepwell.errors import StepwellError
from stepwell.gateway._listing_news import PLAIN, anew, news_since
from stepwell.gateway._listing_tables import AGENT, STEPS, SUMMARIES
from stepwell.gateway._warehouse import LazyWarehouse

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["LISTED", "Listing"]

LISTED = frozenset({*(name.strip('"') for name in PLAIN), "agent", "reward"})
"""The columns of `steps` here; all but `agent` and `reward` are those of the view of that name, and mean the same."""

_COLUMNS = f"{', '.join(PLAIN)}, agent, coalesce(step_reward, trajectory_reward) AS reward"
_SETTINGS = (
    "enable_external_access = false",
    "python_enable_replacements = false",  # names in SQL are tables here, never variables of this process
    "threads = 2",
    "lock_configuration = true",
)
_EVERY = 15.0
"""Seconds between two looks for newer commits that nobody asked for."""
_SETS = 16
_IDS = 4_000_000
"""Sets of ids that are remembered, and ids in all of them: what a search found, or a condition on columns that are not here."""


class Listing:
    """Tables `steps`, `trajectories` and `groups` to ask by SQL. Any thread; the first to come after a commit brings it up to date."""

    def __init__(self, warehouse: LazyWarehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._db: duckdb.DuckDBPyConnection | None = None
        self._state = (-1, -1)
        self._summarised = (-1, -1)
        self._sets: OrderedDict[tuple[str, tuple[int, int]], tuple[pa.Table, bool]] = OrderedDict()

    def ask(self, sql: str, *, summaries: bool = False, within: Mapping[str, pa.Table] | None = None) -> pa.Table:
        """The answer at the newest commit. `summaries`: over `trajectories` or `groups`; `within`: further tables by name.

        Raises:
            StoreError: the warehouse cannot be opened or read.
            duckdb.Error: the statement is wrong.
        """
        with self._lock:
            self._bring_up_to_date(summaries)
            assert self._db is not None
            db = self._db.cursor()
        try:
            for name, table in (within or {}).items():
                db.register(name, table)
            return db.sql(sql).to_arrow_table()
        finally:
            db.close()

    def current(self) -> tuple[int, int]:
        """The newest state, which this is of: its commit's number, and one that grows when something is taken away. Raises StoreError."""
        with self._lock:
            self._bring_up_to_date(summaries=False)
            return self._state

    def _bring_up_to_date(self, summaries: bool) -> None:
        state = (self._warehouse.version(), self._warehouse.forgettings())
        if state != self._state:
            self._follow(*state)
            self._state = state
        if summaries and self._summarised != state:
            self._summarise()
            self._summarised = state

    def warm(self) -> None:
        """Make it before anybody asks, if there is a warehouse already. Never raises for that."""
        with suppress(StepwellError), self._lock:
            self._bring_up_to_date(summaries=True)

    def keep(self, over: threading.Event) -> None:
        """Keep it made until `over`: whoever comes after a long time finds it nearly up to date. A twentieth of a core at most."""
        while True:
            begun = time.monotonic()
            self.warm()
            if over.wait(max(_EVERY, 20 * (time.monotonic() - begun))):
                return

    def stale(self) -> None:
        """What is here is not there any more: make it all anew at the next question."""
        with self._lock:
            self._state = (-1, -1)

    def saying(self, text: str, most: int) -> tuple[pa.Table, bool]:
        """Ids of the steps that say these words, and whether these are all. Raises StoreError, InvalidRecord."""
        import pyarrow as pa

        def find() -> tuple[pa.Table, bool]:
            ids, whole = self._warehouse.saying(text, most)
            return pa.table({"step_id": pa.array(ids, pa.string())}), whole

        return self._set(f"saying {most} {text}", find)

    def satisfying(self, condition: str) -> pa.Table:
        """Ids of the steps that satisfy a condition over the warehouse's view `steps`. Raises StepwellError."""
        sql = f"SELECT step_id FROM steps WHERE ({condition}\n)"
        return self._set(f"where {condition}", lambda: (self._warehouse.query(sql), True))[0]

    def _set(self, key: str, find: Callable[[], tuple[pa.Table, bool]]) -> tuple[pa.Table, bool]:
        named = (key, self.current())
        with self._lock:
            if named in self._sets:
                self._sets.move_to_end(named)
                return self._sets[named]
        found = find()
        with self._lock:
            self._sets[named] = found
            while len(self._sets) > _SETS or sum(ids.num_rows for ids, _ in self._sets.values()) > max(
                _IDS, len(found[0])
            ):
                self._sets.popitem(last=False)
        return found

    def _follow(self, number: int, forgettings: int) -> None:
        known, forgotten = self._state
        news = None
        if self._db is not None and forgotten == forgettings and known <= number:
            news = news_since(known, self._warehouse.query, self._ids_of)
        if news is None:
            self._make(anew(self._warehouse.query, AGENT))
        elif news.num_rows:
            self._replace(news)

    def _make(self, rows: pa.Table) -> None:
        db = _database()
        with _registered(db, "read", rows):
            db.execute(STEPS.format(columns=_COLUMNS))
        self._db, self._summarised = db, (-1, -1)

    def _replace(self, rows: pa.Table) -> None:
        """As one: who asks meanwhile sees the rows before or after."""
        with self._cursor() as db, _registered(db, "read", rows):
            db.execute("BEGIN")
            db.execute("DELETE FROM steps WHERE step_id IN (SELECT step_id FROM read)")
            db.execute(f"INSERT INTO steps SELECT {_COLUMNS} FROM (SELECT *, {AGENT} AS agent FROM read)")
            db.execute("COMMIT")

    def _summarise(self) -> None:
        for name, made in SUMMARIES.items():
            key = f"{'trajectory' if name == 'trajectories' else 'group'}_id"
            rows = self._warehouse.query(f"SELECT * FROM {name} WHERE {key} IS NOT NULL")
            with self._cursor() as db, _registered(db, "read", rows):
                db.execute(made)

    def _ids_of(self, column: str, values: pa.Table) -> list[str]:
        with self._cursor() as db, _registered(db, "named", values):
            found = db.sql(f"SELECT step_id FROM steps WHERE {column} IN (SELECT id FROM named)").to_arrow_table()
        ids: list[str] = found["step_id"].to_pylist()
        return ids

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        assert self._db is not None
        db = self._db.cursor()
        try:
            yield db
        finally:
            db.close()


@contextmanager
def _registered(db: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> Iterator[None]:
    db.register(name, rows)
    try:
        yield
    finally:
        with suppress(Exception):
            db.unregister(name)


def _database() -> duckdb.DuckDBPyConnection:
    import duckdb

    db = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    for setting in _SETTINGS:
        db.execute(f"SET {setting}")
    return db
