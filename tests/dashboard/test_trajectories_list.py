"""The lists of trajectories and steps: rows, counts, filters, orders, pages, and the keyboard, each against what the gateway was given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.dashboard import rollouts
from tests.dashboard.house import House, open_house
from tests.dashboard.visit import Visit

MANY = 230


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house")) as opened:
        rollouts.fill(opened)
        rollouts.many(opened, MANY)
        yield opened


def rows(visit: Visit) -> list[list[str]]:
    """The cells of the table's rows that are in the page."""
    found = visit.page.locator(".lists tbody tr:not(.gap)")
    cells: list[list[str]] = found.evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )
    return cells


def counted(visit: Visit, text: str) -> None:
    """Wait until the list says so of itself, and is there."""
    visit.page.locator("[data-figure=count]", has_text=text).wait_for()
    visit.until(
        "document.querySelector('.lists .foot span') && !document.querySelector('.lists .foot').innerText.includes('asking')"
    )


def test_trajectories_are_listed_with_what_they_add_up_to(visit: Visit) -> None:
    visit.go("#/trajectories?group_id=fix-the-build&sort=trajectory_id")
    counted(visit, "2 trajectories")
    alpha, beta = rows(visit)
    assert alpha[:6] == ["job/alpha", "completed", "+1", "7", "19", "1 drift"]
    assert beta[:6] == ["job/beta", "completed", "0", "1", "3", "1 failed"]
    assert alpha[6:9] == ["coder", "qwen-rl", "3"]
    visit.check_accessible()
    visit.picture("trajectories")


def test_steps_are_listed_and_a_status_is_asked_of_steps(visit: Visit) -> None:
    visit.go("#/trajectories?status=error")
    counted(visit, "1 step")
    [row] = rows(visit)
    assert row[:9] == ["beta.0", "job/beta", "0", "error", "–", "0", "11", "3", "3.5 s"]
    visit.page.get_by_role("button", name="trajectories", exact=True).click()
    counted(visit, f"{MANY + 2} trajectories")
    assert "status" not in visit.page.url


def test_a_filter_is_added_shown_as_a_chip_linked_and_taken_away(visit: Visit) -> None:
    visit.go("#/trajectories")
    counted(visit, f"{MANY + 2} trajectories")
    visit.page.get_by_label("Add a filter").select_option("reward_min")
    visit.page.get_by_label("Reward at least").fill("1")
    visit.page.keyboard.press("Enter")
    counted(visit, "1 trajectory")
    assert visit.page.url.endswith("#/trajectories?reward_min=1")
    assert rows(visit)[0][0] == "job/alpha"
    visit.page.reload()
    counted(visit, "1 trajectory")
    visit.page.get_by_role("button", name="Remove Reward at least").click()
    counted(visit, f"{MANY + 2} trajectories")
    assert visit.page.url.endswith("#/trajectories")


def test_words_are_searched_in_messages_and_answers(visit: Visit) -> None:
    visit.go("#/trajectories?of=steps")
    counted(visit, f"{MANY + 8} steps")
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("zlib1g")
    counted(visit, "2 steps")
    assert {row[0] for row in rows(visit)} == {"alpha.1", "search.0"}
    visit.page.get_by_label("Search messages, answers, ids").fill("nobody said that")
    visit.page.get_by_text("No steps with these filters.").wait_for()


def test_a_condition_that_is_wrong_is_told_in_the_gateways_words(visit: Visit) -> None:
    visit.allowed.append("422")
    visit.go("#/trajectories?of=steps&where=nonsense%20%3D%201")
    visit.page.get_by_role("alert").first.wait_for()
    assert "where" in visit.page.get_by_role("alert").first.inner_text()


@pytest.mark.parametrize(
    ("sort", "first"), [("-steps", "job/alpha"), ("trajectory_id", "job/alpha"), ("-reward", "job/alpha")]
)
def test_orders_are_the_gateways(visit: Visit, house: House, sort: str, first: str) -> None:
    visit.go(f"#/trajectories?sort={sort}")
    counted(visit, "trajectories")
    shown = [row[0] for row in rows(visit)]
    wanted = [one["trajectory_id"] for one in house.get("/trajectories", sort=sort, limit=100)["items"]]
    assert shown[0] == first
    assert shown == wanted[: len(shown)]


def test_a_heading_sorts_from_the_highest_down_and_then_back(visit: Visit) -> None:
    visit.go("#/trajectories")
    counted(visit, "trajectories")
    steps = visit.page.get_by_role("columnheader", name="Steps")
    steps.get_by_role("button").click()
    visit.page.locator("th[aria-sort=descending]", has_text="Steps").wait_for()
    assert visit.page.url.endswith("sort=-steps")
    visit.until("document.querySelector('.lists tbody tr').cells[0].innerText === 'job/alpha'")
    steps.get_by_role("button").click()
    visit.page.locator("th[aria-sort=ascending]", has_text="Steps").wait_for()
    visit.until("document.querySelector('.lists tbody tr').cells[3].innerText === '1'")


def test_pages_follow_as_one_scrolls_and_only_rows_in_view_are_in_the_page(visit: Visit) -> None:
    visit.go("#/trajectories?sort=trajectory_id")
    counted(visit, f"{MANY + 2} trajectories")
    box = visit.page.get_by_role("region", name="Trajectories")
    for there in [*range(100, MANY + 2, 100), MANY + 2]:
        visit.page.locator(".lists .foot", has_text=f"{there} rows").wait_for()
        box.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
    box.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
    last = f"load/{MANY - 1:04d}"
    visit.page.get_by_text(last, exact=True).wait_for()
    assert 0 < len(rows(visit)) < 70


def test_keys_choose_open_and_come_back_to_the_same_list(visit: Visit) -> None:
    visit.go("#/trajectories?group_id=fix-the-build&sort=trajectory_id")
    counted(visit, "2 trajectories")
    for key in ("j", "j", "k", "Enter"):
        visit.page.keyboard.press(key)
    visit.page.locator("h1", has_text="job/alpha").wait_for()
    assert visit.page.url.endswith("#/trajectories/job%2Falpha")
    visit.page.locator(".tree").wait_for()
    visit.page.keyboard.press("u")
    counted(visit, "2 trajectories")
    assert visit.page.url.endswith("?group_id=fix-the-build&sort=trajectory_id")


def test_the_list_fits_a_phone(visit_of: Any) -> None:
    visit = visit_of(phone=True, color_scheme="dark")
    visit.go("#/trajectories")
    counted(visit, "trajectories")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    visit.check_accessible()
    visit.picture("trajectories-phone")


def test_an_order_is_always_asked_for(visit: Visit) -> None:
    """The listing has it at hand, where the tables are looked through."""
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    for place, count, order in (("of=steps", "steps", "sort=-commit"), ("", "trajectories", "sort=-last_at")):
        visit.go(f"#/trajectories?{place}")
        counted(visit, count)
        assert any(f"/api/v1/{count}?" in url and order in url and "limit=100" in url for url in asked), asked
