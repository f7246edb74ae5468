"""Optimise: the prefix tree of a choice, what merging saves and where, and how a budget is packed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.dashboard.house import House
from tests.dashboard.tasks import every, fill_tasks, tokens
from tests.dashboard.visit import Visit

PATIENCE = 60_000
"""Milliseconds for the first answer of a worker process, which starts with it."""
CANVAS = ".icicle canvas"
PART = 13
"""Pixels to the middle of a row of the picture."""


@pytest.fixture(autouse=True)
def filled(house: House) -> None:
    fill_tasks(house)


def show(visit: Visit, place: str) -> None:
    visit.go(place)
    visit.page.locator(CANVAS).wait_for(timeout=PATIENCE)


def savings(visit: Visit) -> list[list[str]]:
    rows = visit.page.locator("[role=region][aria-label='Where the savings are'] tbody tr")
    rows.first.wait_for()
    return [[part.strip() for part in row.split("\t")] for row in rows.all_inner_texts()]


def of_group(group: int) -> list[list[int]]:
    """Prompt and response of every step of a group."""
    return [[*prompt, *response] for prompt, response in (tokens(*one) for one in every() if one[0] == group)]


def test_figures_are_those_of_the_tokens_and_the_parts_say_where_they_are_saved(visit: Visit) -> None:
    show(visit, "#/optimise?group_id=task-0")
    steps = of_group(0)
    naive = sum(map(len, steps))
    merged = len({tuple(step[: end + 1]) for step in steps for end in range(len(step))})
    assert visit.figure("Steps") == str(len(steps))
    assert visit.figure("Tokens, each step in full") == str(naive)
    assert visit.figure("Tokens, merged") == str(merged)
    assert visit.figure("Saved") == f"{round(100 * (naive - merged) / naive, 1):.4g} %"
    assert visit.figure("Naive over merged") == f"{naive / merged:.4g}×"
    first = savings(visit)[0]
    assert first[:4] == ["from 0", "4", str(len(steps)), str(4 * (len(steps) - 1))]
    assert sum(int(row[3]) for row in savings(visit)) == naive - merged
    visit.page.locator(".mask").wait_for(timeout=PATIENCE)
    visit.check_accessible()
    visit.picture("optimise")


def test_a_part_is_looked_into_by_mouse_and_by_keys_and_has_an_address(visit: Visit, house: House) -> None:
    show(visit, "#/optimise?group_id=task-0")
    tree: Any = house.get("/prefix-tree", group_id="task-0")
    inner = next(one for one in tree["rows"] if one["depth"] == 1 and one["steps"] == 2)
    width = visit.page.evaluate("(canvas) => document.querySelector(canvas).clientWidth", CANVAS)
    spot = {"x": (inner["x0"] + 0.5) * width / tree["width"], "y": 26 + PART}
    visit.page.locator(CANVAS).hover(position=spot)
    told = f"{inner['tokens']} tokens from position {inner['position']} ({inner['sampled']} sampled), shared by 2 steps"
    visit.until("(text) => document.querySelector('.told').textContent.includes(text)", told)
    visit.page.locator(CANVAS).click(position=spot)
    visit.until("(node) => location.hash.includes(`node=${node}&`)", inner["node"])
    path = visit.page.get_by_role("navigation", name="Where in the tree")
    path.wait_for()
    assert path.inner_text().split(" › ")[1:] == [
        "4 tokens from 0",
        f"{inner['tokens']} tokens from {inner['position']}",
    ]
    visit.page.reload()
    path.wait_for(timeout=PATIENCE)
    visit.page.keyboard.press("Backspace")
    visit.until("() => location.hash.includes('node=0')")
    visit.page.get_by_role("button", name="the whole").click()
    visit.until("() => !location.hash.includes('node=')")
    path.wait_for(state="detached")
    visit.page.keyboard.press("ArrowDown")
    visit.page.keyboard.press("ArrowRight")
    visit.until("(text) => document.querySelector('.told').textContent.includes(text)", told)
    visit.page.keyboard.press("Enter")
    visit.until("(node) => location.hash.includes(`node=${node}&`)", inner["node"])


def test_a_budget_is_packed_over_ranks(visit: Visit, house: House) -> None:
    show(visit, "#/optimise?group_id=task-1")
    panel = visit.page.locator("section", has=visit.page.get_by_role("heading", name="Packed over ranks"))
    panel.get_by_label("tokens per pack").fill("16")
    panel.get_by_label("ranks").fill("2")
    panel.get_by_role("button", name="Pack").click()
    visit.until("() => location.hash.includes('max_tokens=16') && location.hash.includes('ranks=2')")
    ranks = panel.get_by_role("list", name="Tokens by rank").locator("li .count")
    ranks.nth(1).wait_for(timeout=PATIENCE)
    body = {"where": "group_id = 'task-1'", "max_tokens": 16, "ranks": 2, "advantage": "none", "unended": True}
    first = house.http.post("/api/v1/batches/preview", json=body).json()["first"]
    assert ranks.all_inner_texts() == [str(many) for many in first["tokens_by_rank"]]
    operations, report = first["operations"], first["report"]
    assert visit.figure("Operations") == f"{operations['ratio']:.4g}×"
    assert visit.figure("Tokens computed") == str(operations["tokens"]["computed"])
    assert visit.figure("Attention pairs") == str(operations["pairs"]["computed"])
    assert [visit.figure("Packs"), visit.figure("Longest rank")] == [str(report["packs"]), str(report["makespan"])]
    whole, partial = (sum(map(len, first["mask"][kind])) for kind in ("full", "partial"))
    label = panel.locator(".mask canvas").get_attribute("aria-label") or ""
    assert f"{whole} whole and {partial} partial blocks" in label
    visit.check_accessible()


def test_a_choice_is_made_in_the_page(visit: Visit, house: House) -> None:
    house.warehouse.datasets.create("all", "true")
    visit.go("#/optimise")
    visit.page.get_by_text("Choose a prompt group").wait_for()
    visit.page.get_by_role("button", name="task-2").click()
    visit.page.locator(CANVAS).wait_for(timeout=PATIENCE)
    assert visit.figure("Steps") == str(len(of_group(2)))
    visit.page.get_by_label("What to look at").select_option("dataset")
    visit.page.get_by_role("button", name="all@1").click()
    visit.until("() => location.hash.includes('dataset=all%401')")
    visit.page.locator(".stat", has_text="of dataset all@1").wait_for(timeout=PATIENCE)
    assert visit.figure("Steps") == str(len(every()))


def test_a_dataset_is_looked_into(visit: Visit, house: House) -> None:
    house.warehouse.datasets.create("all", "true")
    show(visit, "#/optimise?dataset=all%401")
    visit.page.keyboard.press("ArrowDown")
    visit.page.keyboard.press("Enter")
    visit.until("() => /node=\\d+/.test(location.hash)")
    visit.page.get_by_role("navigation", name="Where in the tree").wait_for(timeout=PATIENCE)
    visit.page.reload()
    visit.page.get_by_role("navigation", name="Where in the tree").wait_for(timeout=PATIENCE)


def test_a_planned_batch_is_shown_as_its_packs_hold_it(visit: Visit, house: House) -> None:
    visit.go("#/consume/preview?where=true&unended=true&max_tokens=14&ranks=2")
    visit.page.get_by_role("link", name="Its prefix trees").click(timeout=PATIENCE)
    visit.page.locator(CANVAS).wait_for(timeout=PATIENCE)
    settings = {"where": "true", "unended": True, "max_tokens": 14, "ranks": 2}
    first = house.http.post("/api/v1/batches/preview", json=settings).json()["first"]
    assert first["packs"][2:], "what is shown is cut"
    for name, told in (("Tokens, each step in full", "tokens_naive"), ("Tokens, merged", "tokens")):
        assert visit.figure(name) == str(sum(pack[told] for pack in first["packs"]))
    assert visit.figure("Steps") == str(sum(pack["steps"] for pack in first["packs"]))
    drawn = house.http.post("/api/v1/batches/prefix-tree", json=settings).json()
    rows = savings(visit)
    assert sum(int(row[3]) for row in rows) == drawn["saved"]
    visit.check_accessible()
    visit.page.keyboard.press("Enter")
    visit.until("() => location.hash.includes('node=0') && /at=\\d/.test(location.hash)")
    visit.page.get_by_role("navigation", name="Where in the tree").wait_for(timeout=PATIENCE)
    visit.page.get_by_role("link", name="All of its settings").click()
    visit.page.locator("[data-code=reader]").wait_for(timeout=PATIENCE)
    assert "max_tokens=14" in visit.page.locator("[data-code=reader]").inner_text()
    visit.page.go_back()
    visit.page.get_by_role("link", name="what all the selected steps share").click(timeout=PATIENCE)
    visit.page.locator(".stat", has_text="of steps where true").wait_for(timeout=PATIENCE)
    whole: Any = house.get("/prefix-tree", where="true")
    assert visit.figure("Tokens, merged") == str(whole["tokens"]["merged"])


def test_what_cannot_be_shown_is_said(visit: Visit) -> None:
    visit.allowed.append("422|404")
    visit.go("#/optimise?dataset=nothing")
    alert = visit.page.get_by_role("alert").first
    alert.wait_for(timeout=PATIENCE)
    assert "nothing" in alert.inner_text()


def test_on_a_phone_and_in_the_dark(visit_of: Callable[..., Visit]) -> None:
    for settings in ({"phone": True}, {"color_scheme": "dark"}):
        visit = visit_of(**settings)
        show(visit, "#/optimise?group_id=task-0")
        visit.page.locator(".mask").wait_for(timeout=PATIENCE)
        visit.check_accessible()
        assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        visit.picture(f"optimise-{next(iter(settings))}")


def test_a_deep_tree_is_scrolled_and_its_picture_stays_small(visit: Visit, house: House) -> None:
    turns = 60
    steps = [
        {
            "step_id": f"deep.{turn}",
            "trajectory_id": "deep",
            "prompt_ids": list(range(3 * turn + 2)),
            "response_ids": [3 * turn + 2],
        }
        for turn in range(turns)
    ]
    house.put("/steps", *steps)
    house.commit()
    show(visit, "#/optimise?trajectory_id=deep")
    canvas = visit.page.locator(CANVAS)
    assert canvas.bounding_box()["height"] == 640
    box = visit.page.locator(".icicle")
    box.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
    visit.until("document.querySelector('.icicle').scrollTop > 900")
    visit.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    canvas.hover(position={"x": canvas.bounding_box()["width"] - 2, "y": 640 - PART})
    visit.page.locator(".told", has_text=f"deep.{turns - 1}").wait_for()
    assert "shared by 1 step:" in visit.page.locator(".told").inner_text()
