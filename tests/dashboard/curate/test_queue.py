"""Curate's queue and its comparisons: one question after another, by keys; each answer an event."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from tests.dashboard.house import House
from tests.dashboard.tasks import every, name
from tests.dashboard.visit import Visit


def shown(visit: Visit, step: str) -> None:
    """Wait until this step is asked about."""
    visit.until("(step) => document.querySelector('.judged header .mono')?.textContent === step", step)


def figure(visit: Visit, name: str, text: str) -> None:
    visit.until(
        "([name, text]) => document.querySelector(`[data-figure=${name}]`)?.textContent.trim() === text", [name, text]
    )


def judged(house: House, kind: str) -> list[tuple[Any, ...]]:
    house.commit()
    sql = f"SELECT target_id, name, author, value, text FROM feedback WHERE kind = '{kind}' AND target_kind = 'step' ORDER BY target_id"
    return [tuple(row.values()) for row in house.warehouse.query(sql).to_pylist()]


def test_a_queue_is_worked_off_by_keys(visit: Visit, house: House) -> None:
    waiting = [
        step["step_id"]
        for step in house.get("/annotations/queue", author="curator", name="quality", group_id="task-1")["items"]
    ]
    many = len(waiting)
    assert many == sum(group == 1 for group, _, _ in every())
    visit.go("#/curate/queue?group_id=task-1")
    shown(visit, waiting[0])
    figure(visit, "left", f"{many} steps left")
    visit.check_accessible()
    visit.picture("curate-queue")
    visit.page.keyboard.press("5")
    shown(visit, waiting[1])
    figure(visit, "left", f"{many - 1} steps left, 1 judged now")
    figure(visit, "last", "last: 5 of 5")
    visit.page.keyboard.press("s")
    shown(visit, waiting[2])
    visit.page.keyboard.press("2")
    shown(visit, waiting[3])
    visit.page.keyboard.press("u")
    shown(visit, waiting[2])
    figure(visit, "left", f"{many - 1} steps left, 1 judged now")
    for place, key in ((2, "3"), (3, "1"), (4, "4")):
        shown(visit, waiting[place])
        visit.page.keyboard.press(key)
    visit.page.get_by_role("button", name="Come back to the 1 skipped").click()
    shown(visit, waiting[1])
    assert judged(house, "rating") == sorted(
        (waiting[place], "quality", "curator", value, None) for place, value in ((0, 5.0), (2, 3.0), (3, 1.0), (4, 4.0))
    )
    undone = house.warehouse.query(
        f"SELECT kind FROM events WHERE target_id = '{waiting[2]}' ORDER BY \"commit\", sequence"
    )
    assert undone["kind"].to_pylist() == ["rating", "undo", "rating"]


def test_a_question_with_labels_of_ones_own_is_an_address(visit: Visit, house: House) -> None:
    visit.go("#/curate/queue?ask=label&name=verdict&options=right%2Cwrong%2C%3Cb%3E&group_id=task-0")
    first = house.get("/annotations/queue", author="curator", name="verdict", group_id="task-0")["items"][0]["step_id"]
    shown(visit, first)
    answers = visit.page.locator(".answers button").all_inner_texts()
    assert [text.split() for text in answers] == [["1", "right"], ["2", "wrong"], ["3", "<b>"]]
    visit.page.keyboard.press("2")
    visit.until("(step) => document.querySelector('.judged header .mono')?.textContent !== step", first)
    assert judged(house, "label") == [(first, "verdict", "curator", None, "wrong")]
    visit.page.get_by_role("button", name="good or bad").click()
    visit.until("() => location.hash.includes('ask=thumbs') && !location.hash.includes('options')")
    visit.page.get_by_role("button", name="1 good").wait_for()


def test_another_author_has_a_queue_of_their_own(visit: Visit, house: House) -> None:
    visit.go("#/curate/queue?group_id=task-0")
    many = sum(group == 0 for group, _, _ in every())
    figure(visit, "left", f"{many} steps left")
    visit.page.keyboard.press("4")
    figure(visit, "left", f"{many - 1} steps left, 1 judged now")
    house.commit()
    visit.page.get_by_label("You judge as").fill("bob")
    visit.page.get_by_label("You judge as").press("Enter")
    figure(visit, "left", f"{many} steps left")
    visit.page.reload()
    figure(visit, "left", f"{many} steps left")
    assert visit.page.get_by_label("You judge as").input_value() == "bob"


def test_when_all_is_judged_the_page_says_so(visit: Visit) -> None:
    visit.go("#/curate/queue?trajectory_id=task-0%2F0")
    shown(visit, name(0, 0, 0))
    visit.page.keyboard.press("3")
    visit.page.get_by_text("Done: 1 judged now.").wait_for()
    visit.page.get_by_role("link", name="Back to the list").click()
    visit.until("() => location.hash === '#/curate?trajectory_id=task-0%2F0'")


def sides(visit: Visit) -> list[str]:
    visit.page.locator(".answer-card").nth(1).wait_for()
    return [
        str(link.get_attribute("href")).rpartition("/")[2].replace("%2F", "/")
        for link in visit.page.locator(".answer-card details a").all()
    ]


def test_two_answers_are_compared_and_the_better_one_is_preferred(visit: Visit, house: House) -> None:
    pairs = {frozenset(pair) for pair in combinations([name(1, member, 0) for member in range(3)], 2)}
    visit.go("#/curate/pairs?group_id=task-1")
    left, right = sides(visit)
    assert frozenset((left, right)) in pairs
    assert "Find why the loop never ends." in visit.page.locator(".conversation").inner_text()
    cards = visit.page.locator(".answer-card .message").all_inner_texts()
    assert [f"Answer {step[-3]}, turn 0." in card for step, card in zip((left, right), cards, strict=True)] == [
        True,
        True,
    ]
    visit.check_accessible()
    visit.picture("curate-pairs")
    visit.page.keyboard.press("ArrowRight")
    figure(visit, "last", "last: right is better")
    assert judged(house, "preference") == [(right, "preferred", "curator", None, left)]
    visit.page.keyboard.press("u")
    visit.page.locator(".toast", has_text="Undone: right is better").wait_for()
    assert sides(visit) == [left, right] and judged(house, "preference") == []
    visit.page.get_by_role("button", name="This one is better").first.click()
    figure(visit, "last", "last: left is better")
    visit.page.keyboard.press("s")
    visit.until("() => document.querySelectorAll('.answer-card').length === 2")
    visit.page.keyboard.press("ArrowLeft")
    visit.page.get_by_text("Done: 2 compared now.").wait_for()
    kept = {frozenset((better, worse)) for better, _, _, _, worse in judged(house, "preference")}
    assert len(kept) == 2 and kept < pairs
    visit.page.get_by_role("button", name="Come back to the 1 skipped").click()
    assert {frozenset(sides(visit))} == pairs - kept


def test_on_a_phone(visit_of: Callable[..., Visit]) -> None:
    visit = visit_of(phone=True)
    for place in ("#/curate/queue", "#/curate/pairs"):
        visit.go(place)
        visit.page.locator(".message").first.wait_for()
        visit.check_accessible()
        assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        visit.picture(f"{place.rpartition('/')[2]}-phone")
