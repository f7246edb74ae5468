"""docs/schema.md says what the schema is."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.warehouse import _schema_page as schema_page
from stepwell.warehouse._query.views import VIEWS as DEFINED
from stepwell.warehouse._schema_words import COLUMNS, VIEWS
from stepwell.warehouse._schema_words import TABLES as TABLE_WORDS
from stepwell.warehouse._tables.schema import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "schema.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == schema_page.page(), "run `make docs`"


def test_every_table_and_view_is_on_it() -> None:
    assert TABLE_WORDS.keys() == {spec.name for spec in TABLES}
    assert VIEWS.keys() == {"steps", *(name for name in DEFINED if not name.startswith("_"))}


def test_no_words_are_left_of_a_column_that_is_gone() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [
        f"{name}.{column}" for name, said in COLUMNS.items() for column in said if f"| `{column}` |" not in page
    ] == []


def test_a_column_without_words_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_page, "COLUMNS", {**COLUMNS, "steps": {}})
    with pytest.raises(KeyError, match="steps"):
        schema_page.page()
