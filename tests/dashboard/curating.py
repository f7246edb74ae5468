"""What the tests of Curate do in the page, and what they ask the warehouse."""

from __future__ import annotations

from typing import Any

from tests.dashboard.house import House
from tests.dashboard.visit import Visit

ROWS = "table[aria-label='Steps to curate'] tbody tr:not(.gap)"


def rows(visit: Visit, many: int) -> None:
    visit.until("([rows, many]) => document.querySelectorAll(rows).length === many", [ROWS, many])


def counted(visit: Visit, many: int) -> None:
    """Wait until the page says that so many steps are meant."""
    visit.until("(text) => document.querySelector('[data-figure=count]').textContent === text", f"{many} steps")


def choose(visit: Visit, *steps: str) -> None:
    for step in steps:
        visit.page.get_by_role("checkbox", name=f"Choose {step}", exact=True).click()


def bulk(visit: Visit, what: str, **fields: str) -> None:
    """Fill in the bar of what is chosen, and send it."""
    bar = visit.page.get_by_role("form", name="Judge what is chosen")
    bar.get_by_label("What to say").select_option(label=what)
    for label, value in fields.items():
        field = bar.get_by_label(label, exact=True)
        field.select_option(value) if field.evaluate("(field) => field.tagName") == "SELECT" else field.fill(value)
    bar.locator("button[type=submit]").click()


def toast(visit: Visit, text: str) -> Any:
    found = visit.page.locator(".toast", has_text=text)
    found.wait_for()
    return found


def said(house: House, step: str) -> list[tuple[Any, ...]]:
    """What counts of what was said about a step."""
    house.commit()
    sql = f"SELECT kind, name, author, value, text FROM feedback WHERE target_kind = 'step' AND target_id = '{step}' ORDER BY kind, name"
    return [tuple(row.values()) for row in house.warehouse.query(sql).to_pylist()]


def history(house: House, step: str) -> list[str]:
    sql = f"SELECT kind FROM events WHERE target_id = '{step}' ORDER BY \"commit\", sequence"
    return [row["kind"] for row in house.warehouse.query(sql).to_pylist()]
