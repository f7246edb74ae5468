"""The table of long lists, over the interface's own pages: it asks for them as they are needed, and keeps few rows in the page."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dashboard.house import House
from tests.dashboard.visit import Visit
from tests.gateway.filled import fill

STEPS = 730
MOUNT = """async () => {
    const { html, render, useState } = await import("/assets/js/lib/html.js");
    const { Table, usePages } = await import("/assets/js/lib/table.js");
    const columns = [
        { name: "step_id", label: "Step", sort: true, cell: (row) => row.step_id },
        { name: "model", label: "Model", cell: (row) => row.model },
    ];
    window.opened = [];
    const Tried = () => {
        const [sort, setSort] = useState("step_id");
        const pages = usePages("/steps", { sort });
        const open = (row) => window.opened.push(row.step_id);
        return html`<${Table} label="Tried" columns=${columns} pages=${pages} rowKey="step_id" sort=${sort} onSort=${setSort}
            onOpen=${open} height="400px" />`;
    };
    const box = document.getElementById("main");
    render(null, box);
    box.replaceChildren();
    render(html`<${Tried} />`, box);
}"""


@pytest.fixture
def table(visit: Visit, house: House) -> Any:
    fill(house.warehouse, 1, STEPS)
    visit.go("#/nowhere")
    visit.page.evaluate(MOUNT)
    visit.page.get_by_text("100 rows so far").wait_for()
    return visit.page.get_by_role("region", name="Tried")


def ids(table: Any) -> list[str]:
    found: list[str] = table.evaluate(
        "(box) => [...box.querySelectorAll('tbody tr:not(.gap) td:first-child')].map((cell) => cell.textContent)"
    )
    return found


def down(table: Any) -> None:
    table.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")


def test_pages_come_as_it_is_scrolled_and_few_rows_are_there(visit: Visit, table: Any) -> None:
    assert ids(table)[:2] == ["c001/00000", "c001/00001"]
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    for number in range(2, STEPS // 100 + 1):
        down(table)
        visit.page.get_by_text(f"{number}00 rows so far").wait_for()
        assert len(ids(table)) < 60
    down(table)
    visit.page.get_by_text(f"{STEPS} rows").wait_for()
    down(table)
    visit.until(
        "(last) => [...document.querySelectorAll('td')].some((cell) => cell.textContent === last)",
        f"c001/{STEPS - 1:05}",
    )
    assert len([url for url in asked if "cursor=" in url]) == STEPS // 100
    assert table.get_by_role("table").get_attribute("aria-rowcount") == str(STEPS + 1)
    visit.check_accessible()


def test_keys_go_through_the_rows_and_what_is_chosen_is_in_sight(visit: Visit, table: Any) -> None:
    for _ in range(40):
        visit.page.keyboard.press("j")
    visit.page.keyboard.press("k")
    chosen = table.locator("tr.chosen")
    assert chosen.locator("td").first.inner_text() == "c001/00038"
    box, row = table.bounding_box(), chosen.bounding_box()
    assert box["y"] <= row["y"] and row["y"] + row["height"] <= box["y"] + box["height"] + 1
    visit.page.keyboard.press("Enter")
    assert visit.page.evaluate("window.opened") == ["c001/00038"]


def test_a_head_sorts_the_whole_list(visit: Visit, table: Any) -> None:
    down(table)
    visit.page.get_by_text("200 rows so far").wait_for()
    head = table.get_by_role("columnheader", name="Step")
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    visit.until(
        "(last) => [...document.querySelectorAll('td')].some((cell) => cell.textContent === last)",
        f"c001/{STEPS - 1:05}",
    )
    assert head.get_attribute("aria-sort") == "descending"
    visit.page.get_by_text("100 rows so far").wait_for()


def test_a_page_that_fails_is_asked_for_again_by_hand(visit: Visit, table: Any) -> None:
    visit.allowed.append("422")
    visit.page.route(
        "**/steps?*cursor=*", lambda route: route.continue_(url=route.request.url.replace("cursor=", "cursor=broken"))
    )
    visit.page.get_by_role("button", name="More").click()
    visit.page.get_by_role("alert").wait_for()
    visit.page.unroute("**/steps?*cursor=*")
    visit.page.get_by_role("button", name="Try again").click()
    visit.page.get_by_text("200 rows so far").wait_for()
