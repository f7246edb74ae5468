"""Full-text search: with an index and without one, what is found, in which order, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.stores import Place

from stepwell.errors import InvalidRecord
from stepwell.warehouse import Ingest
from stepwell.warehouse._tables.schema import STEPS
from stepwell.warehouse._upkeep.indices import make


@pytest.mark.parametrize("indexed", [False, True])
def test_a_word_is_found_where_it_was_said(local: Place, feed: Any, spools: Path, indexed: bool) -> None:
    talk = [{"role": "user", "content": "Look for the xylophone.\nThen compile it."}]
    first = feed.exchange(talk, "There is a xylophone, a xylophone!", "t")
    talk += [
        {"role": "assistant", "content": "There is a xylophone, a xylophone!"},
        {"role": "user", "content": "go on"},
    ]
    second = feed.exchange(talk, "compiled the bassoon", "t")
    warehouse = local.open()
    worker = Ingest(warehouse, spools)
    while worker.run_once():
        pass
    if indexed:
        for column in ("messages_suffix", "response"):
            warehouse.tables["steps"].refresh()
            make(warehouse.tables["steps"].dataset, "steps", column, None)
    found = warehouse.search("Xylophone").to_pylist()
    assert [(row["step_id"], row["trajectory_id"]) for row in found] == [(first, "t")]
    assert found[0]["snippet"] == "Look for the xylophone. Then compile it."
    assert found[0]["score"] > 0
    assert warehouse.search("bassoon")["step_id"].to_pylist() == [second]
    assert set(warehouse.search("xylophone bassoon")["step_id"].to_pylist()) == {first, second}
    assert warehouse.search("xylophone bassoon", 1).num_rows == 1
    assert warehouse.search("trombone").num_rows == 0


def test_a_long_text_is_cut_around_the_word(local: Place, committed: Callable[..., None]) -> None:
    warehouse = local.open()
    committed(warehouse, [step("s", 1, "before " * 60 + "needle " + "after " * 60)], 1)
    snippet = warehouse.search("needle")["snippet"][0].as_py()
    assert snippet.startswith("…") and snippet.endswith("…") and " needle " in snippet
    assert len(snippet) < 200


def test_what_is_not_committed_is_not_found(local: Place, committed: Callable[..., None]) -> None:
    warehouse = local.open()
    # Those that are not are the best.
    said = {number: "needle needle needle" if number > 25 else "a needle in much more hay" for number in range(1, 40)}
    committed(warehouse, [step(f"s{number}", number, text) for number, text in said.items()], 25)
    assert warehouse.search("needle", 5).num_rows == 5
    found = warehouse.search("needle", 100)["step_id"].to_pylist()
    assert sorted(found) == sorted(f"s{number}" for number in range(1, 26))


@pytest.mark.parametrize(("text", "limit", "field"), [("", 1, "text"), (" ?! ", 1, "text"), ("word", 0, "limit")])
def test_what_cannot_be_searched_for(local: Place, text: str, limit: int, field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        local.open().search(text, limit)
    assert caught.value.field == field


def step(step_id: str, sequence: int, text: str) -> dict[str, Any]:
    said = f'{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}]}}'
    return {"step_id": step_id, "trajectory_id": "t", "response": said, "producer": "p", "sequence": sequence}


@pytest.fixture
def committed() -> Callable[..., None]:
    """Rows of steps, of which the first so many are committed."""

    def commit(warehouse: Any, rows: list[dict[str, Any]], mark: int) -> None:
        warehouse.tables["steps"].commit(pa.Table.from_pylist(rows, schema=STEPS.schema), {"p": len(rows)})
        row = {"commit_id": "1.p", "commit": 1, "after": 0, "producer": "p", "sequence": mark}
        commits = warehouse.tables["commits"]
        commits.commit(pa.Table.from_pylist([row], schema=commits.spec.schema), {"p": mark}, 1)

    return commit


@pytest.mark.parametrize("indexed", [False, True])
def test_steps_that_say_every_word(local: Place, committed: Callable[..., None], indexed: bool) -> None:
    warehouse = local.open()
    said = {1: "kiwi mango", 2: "mango and papaya", 3: "papaya, kiwi; Mango!", 4: "kiwi mango", 5: "Größe"}
    committed(warehouse, [step(f"s{number}", number, text) for number, text in said.items()], 5)
    committed(warehouse, [step("later", 6, "kiwi mango")], 5)
    if indexed:
        for column in ("messages_suffix", "response"):
            warehouse.tables["steps"].refresh()
            make(warehouse.tables["steps"].dataset, "steps", column, None)
    assert sorted(warehouse.saying("KIWI mango")[0]) == ["s1", "s3", "s4"]  # what is not committed yet is not there
    assert warehouse.saying("größe") == (["s5"], True) and warehouse.saying("trombone") == ([], True)
    assert not warehouse.saying("mango", 2)[1] and len(warehouse.saying("mango", 2)[0]) <= 2
    with pytest.raises(InvalidRecord):
        warehouse.saying("?!")


def test_a_word_after_a_line_break_is_a_word(local: Place, committed: Callable[..., None]) -> None:
    warehouse = local.open()
    committed(warehouse, [step("s", 1, 'one\nTwo\t"three"')], 1)
    assert [warehouse.saying(word)[0] for word in ("one", "two", "three", "ntwo")] == [["s"], ["s"], ["s"], []]


def test_what_was_taken_away_is_noticed(local: Place) -> None:
    warehouse = local.open()
    before = warehouse.forgettings()
    assert warehouse.forgettings() == before
    table = warehouse.tables["forgotten"]
    table.commit(table.spec.schema.empty_table(), {}, 1)
    assert local.open().forgettings() > before and warehouse.forgettings() > before
