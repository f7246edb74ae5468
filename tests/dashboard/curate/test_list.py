"""Curate: what is chosen and said in the page, and what the warehouse has of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.dashboard.curating import ROWS, bulk, choose, counted, history, rows, said, toast
from tests.dashboard.house import House
from tests.dashboard.tasks import every, name
from tests.dashboard.visit import Visit


def test_the_list_its_filters_and_its_figures(visit: Visit, house: House) -> None:
    visit.go("#/curate")
    rows(visit, len(every()))
    counted(visit, len(every()))
    visit.page.get_by_label("Add a filter").select_option(label="group has one reward only")
    visit.page.get_by_label("group has one reward only").select_option("true")
    visit.until("() => location.hash === '#/curate?zero_variance=true'")
    alike = sum(group == 1 for group, _, _ in every())
    rows(visit, alike)
    counted(visit, alike)
    first = [part.strip() for part in visit.page.locator(ROWS).first.inner_text().split("\t")]
    newest = house.get("/steps", zero_variance=True)["items"][0]
    assert first[1:6] == [newest["step_id"], "task-1", newest["model"], "ok", "+1"]
    visit.page.get_by_label("Remove group has one reward only").click()
    rows(visit, len(every()))
    visit.page.get_by_role("searchbox").fill("customers")
    rows(visit, sum(group == 2 and turn == 0 for group, _, turn in every()))  # where it was said first
    visit.page.get_by_role("searchbox").fill("nobody says this")
    visit.page.get_by_text("No step is like this.").wait_for()
    visit.page.get_by_role("button", name="Show all steps").click()
    rows(visit, len(every()))
    visit.page.get_by_role("button", name="Reward").click()
    visit.until("() => location.hash === '#/curate?sort=-reward'")
    visit.check_accessible()


def test_a_label_of_some_steps_and_its_undo_which_leaves_the_history(visit: Visit, house: House) -> None:
    visit.go("#/curate")
    rows(visit, len(every()))
    counted(visit, len(every()))
    chosen = [name(0, 0, 0), name(1, 1, 0)]
    choose(visit, *chosen)
    assert visit.page.locator("[data-figure=chosen]").inner_text() == "2 steps chosen"
    visit.picture("curate")
    bulk(visit, "Label", label="too long", Why="says it twice")
    done = toast(visit, "Labelled “too long”: 2 steps")
    for step in chosen:
        assert said(house, step) == [("label", "label", "curator", None, "too long")]
    assert said(house, name(0, 1, 0)) == []
    visit.page.locator(ROWS, has_text=chosen[0]).get_by_text("too long").wait_for()
    done.get_by_role("button", name="Undo").click()
    toast(visit, "Undone: labelled “too long” (2 steps)")
    for step in chosen:
        assert said(house, step) == [] and history(house, step) == ["label", "undo"]


def test_everything_that_a_filter_means_is_judged_after_asking(visit: Visit, house: House) -> None:
    visit.go("#/curate?group_id=task-2")
    many = sum(group == 2 for group, _, _ in every())
    rows(visit, many)
    visit.page.get_by_role("checkbox", name="Choose all rows that are here").click()
    visit.page.goto(f"{visit.url}/#/curate")
    rows(visit, len(every()))
    assert visit.page.locator("[data-figure=chosen]").count() == 0  # another filter, and nothing is chosen
    visit.page.goto(f"{visit.url}/#/curate?group_id=task-2")
    rows(visit, many)
    visit.page.keyboard.press("X")
    bulk(visit, "Not for training", Why="a leaked test")
    toast(visit, f"Kept out of training: {many} steps")
    house.commit()
    barred = house.warehouse.query(
        "SELECT step_id, untrainable_reason FROM steps WHERE NOT trainable ORDER BY step_id"
    ).to_pylist()
    assert [row["step_id"] for row in barred] == sorted(name(*one) for one in every() if one[0] == 2)
    assert barred[0]["untrainable_reason"] == "set not trainable by curator: a leaked test"
    visit.page.locator(ROWS).first.get_by_text("not for training").wait_for()
    visit.page.keyboard.press("X")
    bulk(visit, "For training again")
    toast(visit, "Let train again")
    house.commit()
    assert house.warehouse.query("SELECT step_id FROM steps WHERE NOT trainable").num_rows == 0


@pytest.mark.parametrize(
    ("what", "fields", "kept"),
    [
        ("Tag (beside others)", {"tag": "leak"}, ("label", "tag:leak", "ann", None, "leak")),
        ("Rate", {"rating": "4"}, ("rating", "rating", "ann", 4.0, None)),
        ("Reward", {"reward": "-0.5", "name of the reward": "style"}, ("reward", "style", "ann", -0.5, None)),
        ("Note", {"note": "look again"}, ("comment", "note", "ann", None, "look again")),
    ],
)
def test_every_kind_is_kept_under_the_authors_name(
    visit: Visit, house: House, what: str, fields: dict[str, str], kept: tuple[Any, ...]
) -> None:
    visit.go("#/curate?group_id=task-0")
    visit.page.get_by_label("You judge as").fill("ann")
    visit.page.get_by_label("You judge as").press("Enter")
    visit.page.locator(ROWS).first.wait_for()
    visit.page.keyboard.press("Escape")
    visit.page.locator("h1").click()
    for key in ("j", "x", "j", "x"):
        visit.page.keyboard.press(key)
    listed = [step["step_id"] for step in house.get("/steps", group_id="task-0")["items"]]
    bulk(visit, what, **fields)
    visit.page.locator(".toast", has_text="2 steps").wait_for()
    assert [said(house, step) for step in listed[:3]] == [[kept], [kept], []]


def test_saved_views_are_kept_for_all_and_deleted(visit: Visit, visit_of: Callable[..., Visit], house: House) -> None:
    visit.go("#/curate?reward_min=0.5&sort=-reward")
    visit.page.get_by_role("button", name="Save this view").click()
    visit.page.get_by_label("Name of the view").fill("good ones")
    visit.page.get_by_label("Name of the view").press("Enter")
    toast(visit, "Saved as “good ones”")
    [view] = house.get("/views")["items"]
    assert (view["name"], view["view"]) == (
        "good ones",
        {"route": "curate", "params": {"reward_min": "0.5", "sort": "-reward"}},
    )
    other = visit_of()
    other.go("#/curate")
    rows(other, len(every()))
    other.page.get_by_role("link", name="good ones").click()
    other.until("() => location.hash === '#/curate?reward_min=0.5&sort=-reward'")
    rows(
        other,
        sum(
            step["trajectory_reward"] is not None and step["trajectory_reward"] >= 0.5
            for step in house.get("/steps")["items"]
        ),
    )
    other.page.get_by_label("Delete the view good ones").click()
    other.page.get_by_role("button", name="Delete", exact=True).click()
    toast(other, "Deleted the view")
    assert house.get("/views")["items"] == []


def test_groups_whose_rewards_are_all_the_same_are_shown(visit: Visit) -> None:
    visit.go("#/curate/groups")
    table = visit.page.locator("table[aria-label='Prompt groups'] tbody tr:not(.gap)")
    table.nth(2).wait_for()
    visit.until("() => [...document.querySelectorAll('.stat .value')].every((one) => one.textContent !== '–')")
    assert [visit.figure(label) for label in ("Groups", "Ready", "One reward only")] == ["3", "2", "1"]
    shown = {row.split("\t")[0].strip(): row for row in table.all_inner_texts()}
    assert "one reward only" in shown["task-1"] and "ready" in shown["task-1"]
    assert "waits" in shown["task-2"] and "one reward only" not in shown["task-0"]
    figures = [part.strip() for part in shown["task-0"].split("\t")]
    assert figures[2:6] == ["3", "3", "+0.5", "0.408"]
    visit.check_accessible()
    visit.picture("curate-groups")
    visit.page.locator(".stat", has_text="One reward only").click()
    visit.until("() => location.hash.includes('zero_variance=true')")
    visit.until("() => document.querySelectorAll(\"table[aria-label='Prompt groups'] tbody tr\").length === 1")
    table.first.click()
    visit.until("() => location.hash === '#/curate?group_id=task-1'")


def test_what_was_done_can_be_undone_later(visit: Visit, house: House) -> None:
    steps = [name(0, 0, 0), name(0, 2, 0)]
    asked = {"ids": steps, "feedback": {"author": "ann", "label": "draft"}}
    assert house.http.post("/api/v1/feedback/bulk", json=asked).status_code == 200
    visit.go("#/curate/done")
    row = visit.page.locator("table.plain tbody tr")
    assert [part.strip() for part in row.inner_text().split("\t")][:3] == ["label: draft", "2", "ann"]
    visit.page.get_by_role("button", name="Undo: label: draft").click()
    visit.page.get_by_role("dialog").get_by_role("button", name="Undo").click()
    toast(visit, "Undone: label: draft (2 steps)")
    row.get_by_text("undone").wait_for()
    assert said(house, steps[0]) == [] and history(house, steps[0]) == ["label", "undo"]
    visit.check_accessible()


def test_what_the_gateway_refuses_is_said_in_its_words(visit: Visit) -> None:
    visit.allowed.append("422")
    visit.go("#/curate?where=no_such_column%20%3E%203")
    assert "no_such_column" in visit.page.locator("main .problem").first.inner_text()


def test_on_a_phone_and_in_the_dark(visit_of: Callable[..., Visit]) -> None:
    for settings in ({"phone": True}, {"color_scheme": "dark"}):
        visit = visit_of(**settings)
        visit.go("#/curate")
        rows(visit, len(every()))
        choose(visit, name(2, 1, 0))
        visit.check_accessible()
        assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        visit.picture(f"curate-{next(iter(settings))}")
