"""Where tables are ahead of what is committed."""

from __future__ import annotations

from stepwell.warehouse import Warehouse
from stepwell.warehouse._commit.halfway import ends_beyond, table_marks
from stepwell.warehouse._tables.schema import EVENTS, FACTS


def test_what_is_committed_is_no_end() -> None:
    assert ends_beyond({"p": 5, "q": 3}, [{"p": 5, "q": 2}, {"p": 1}, {}]) == {}


def test_each_table_may_be_somewhere_else() -> None:
    found = [{"p": 9, "q": 4}, {"p": 7, "q": 4}, {"p": 5, "r": 1}]
    assert ends_beyond({"p": 5, "q": 3}, found) == {"p": [7, 9], "q": [4], "r": [1]}


def test_marks_of_tables_are_those_of_now(warehouse: Warehouse, local: object) -> None:
    assert table_marks(warehouse) == [{}] * len(FACTS)
    other = Warehouse.open(warehouse.uri)
    other.tables["events"].commit(EVENTS.schema.empty_table(), {"p": 3})
    assert sorted(map(len, table_marks(warehouse))) == [0, 0, 0, 1]
