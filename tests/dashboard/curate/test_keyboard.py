"""The keyboard: what keys do while something else has the word, where the focus goes, and that what is chosen stays what it was."""

from __future__ import annotations

from typing import Any

from tests.dashboard.curating import ROWS, choose, rows, said
from tests.dashboard.house import House
from tests.dashboard.tasks import every, name
from tests.dashboard.visit import Visit

TAIL = "table[aria-label^='Steps and events'] tbody tr"


def chosen(visit: Visit) -> Any:
    return visit.page.locator("[data-figure=chosen]")


def test_keys_do_nothing_behind_a_dialog(visit: Visit, house: House) -> None:
    step = name(0, 0, 0)
    visit.go(f"#/curate/step/{step.replace('/', '%2F')}")
    visit.page.get_by_text("Judge it").wait_for()
    visit.page.keyboard.press("?")
    visit.page.get_by_role("dialog").wait_for()
    visit.page.keyboard.press("5")
    visit.page.keyboard.press("g")
    visit.page.keyboard.press("o")
    visit.page.keyboard.press("Escape")
    visit.page.get_by_role("dialog").wait_for(state="detached")
    visit.page.keyboard.press("4")
    visit.page.locator(".toast", has_text="Rated 4 of 5").wait_for()
    assert [one[3] for one in said(house, step)] == [4.0]
    assert "#/curate/step/" in visit.page.evaluate("location.hash")


def test_what_is_chosen_stays_when_one_says_no_or_leaves_a_field(visit: Visit) -> None:
    visit.go("#/curate")
    rows(visit, len(every()))
    visit.page.keyboard.press("X")
    assert chosen(visit).inner_text() == "13 steps chosen"
    visit.page.get_by_role("searchbox").focus()
    visit.page.keyboard.press("Escape")
    assert visit.page.evaluate("document.activeElement === document.body")
    visit.page.get_by_label("What to say").select_option(label="Note")
    visit.page.get_by_label("note", exact=True).fill("seen")
    visit.page.keyboard.press("Escape")
    assert chosen(visit).inner_text() == "13 steps chosen"
    visit.page.keyboard.press("Escape")
    chosen(visit).wait_for(state="detached")


def test_the_key_chooses_the_row_that_was_clicked(visit: Visit) -> None:
    visit.go("#/curate")
    rows(visit, len(every()))
    names = visit.page.locator(f"{ROWS} td:nth-child(2)").all_inner_texts()
    visit.page.keyboard.press("j")
    choose(visit, names[3])
    visit.page.keyboard.press("x")
    assert visit.page.locator(f"{ROWS}.picked td:nth-child(2)").all_inner_texts() == []
    visit.page.keyboard.press("x")
    assert visit.page.locator(f"{ROWS}.picked td:nth-child(2)").all_inner_texts() == [names[3]]


def test_a_chosen_row_stays_chosen_while_others_come(visit: Visit, house: House) -> None:
    visit.go("#/collect")
    visit.page.locator(".tail .badge.good", has_text="live").wait_for()
    visit.until("(rows) => document.querySelectorAll(rows).length > 10", TAIL)
    visit.page.keyboard.press("j")
    before = visit.page.locator("tr.chosen td:nth-child(4)").inner_text()
    house.put("/steps", *[{"step_id": f"newer.{one}", "prompt_ids": [1], "response_ids": [2]} for one in range(3)])
    house.commit()
    visit.page.get_by_text("3 steps and 0 events came").wait_for()
    assert visit.page.locator("tr.chosen td:nth-child(4)").inner_text() == before
    visit.page.keyboard.press("j")
    assert visit.page.locator("tr.chosen").get_attribute("aria-rowindex") == "6"  # below the one before, not the first


def test_the_focus_goes_back_to_where_filters_are_added(visit: Visit) -> None:
    visit.go("#/curate")
    rows(visit, len(every()))
    adder = visit.page.get_by_label("Add a filter")
    there = "document.activeElement?.getAttribute('aria-label') === 'Add a filter'"
    adder.select_option(label="label")
    visit.page.get_by_label("label", exact=True).fill("good")
    visit.page.keyboard.press("Enter")
    visit.until(there)
    visit.page.get_by_label("Remove label").click()
    visit.until(there)
    adder.select_option(label="tag")
    visit.page.get_by_label("tag", exact=True).press("Escape")
    visit.until(there)
