"""One trajectory: its figures, the tree with retries, branches, a sub-agent and drift, what was said about it, and the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.dashboard import rollouts
from tests.dashboard.house import House, open_house
from tests.dashboard.visit import Visit

ALPHA = "#/trajectories/job%2Falpha"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house")) as opened:
        rollouts.fill(opened)
        rollouts.captured(opened)
        yield opened


def tree(visit: Visit) -> list[list[str]]:
    """The cells of the tree's rows."""
    rows = visit.page.locator(".tree tbody tr")
    rows.first.wait_for()
    cells: list[list[str]] = rows.evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    return [[" ".join(cell.split()) for cell in row] for row in cells]


def figure(visit: Visit, name: str) -> str:
    """A figure of the strip of this name, as one line."""
    return " ".join(str(visit.page.locator(f"[data-figure='{name}']").first.inner_text()).split())


def test_the_tree_shows_conversations_retries_branches_and_drift(visit: Visit) -> None:
    visit.go(ALPHA)
    rows = tree(visit)
    assert [row[0] for row in rows] == [
        "The agent's conversation 5 steps, 3 ends",
        "alpha.0",
        "alpha.1 attempt 1/2 neat",
        "alpha.1-retry attempt 2/2",
        "alpha.2a branch 1/2 not trained",
        "alpha.2b branch 2/2 drift",
        "Sub-agent searcher 2 steps",
        "search.0",
        "search.1",
    ]
    assert rows[1][1:7] == ["ok", "0", "12", "8", "–", "3.5 s"]
    assert rows[5][1:7] == ["ok", "2", "30", "2", "–", "3.5 s"]
    assert visit.page.get_by_text("7 steps in 2 conversations").count() == 1
    visit.check_accessible()
    visit.picture("trajectory")


def test_lines_go_on_branch_off_and_end(visit: Visit) -> None:
    visit.go(ALPHA)
    tree(visit)
    dots = visit.page.evaluate(
        "() => [...document.querySelectorAll('.tree .dot')].map((dot) => Number(dot.getAttribute('cx')))"
    )
    main, retry, branch = dots[0], dots[2], dots[4]
    assert dots[:5] == [main, main, retry, main, branch]
    assert main < retry and main < branch and dots[5:] == [main, main]


def test_the_figures_are_the_trajectorys(visit: Visit) -> None:
    visit.go(ALPHA)
    tree(visit)
    assert figure(visit, "reward") == "+1 tests_pass +1"
    assert figure(visit, "steps") == "7 6 trainable, 3 turns"
    assert figure(visit, "sampled") == "19 tokens"
    assert figure(visit, "version") == "3"
    assert figure(visit, "group") == "fix-the-build"
    assert figure(visit, "began").endswith("for 43.5 s")
    assert visit.page.locator(".head .badge").inner_text() == "completed"


def test_what_was_said_is_listed_and_leads_to_its_step(visit: Visit) -> None:
    visit.go(ALPHA)
    tree(visit)
    events = [" ".join(one.split()) for one in visit.page.locator(".events li").all_inner_texts()]
    assert [event.split(", ")[0] for event in events] == [
        "trajectory.completed state " + events[0].split("state ")[1],
        "reward tests_pass +1 by ci",
        "label neat “Short and right.” by ann",
    ]
    visit.page.locator(".events").get_by_role("button", name="alpha.1").click()
    visit.page.locator("#step-title", has_text="alpha.1").wait_for()
    assert visit.page.url.endswith(f"{ALPHA}?step=alpha.1")


def test_a_retry_that_was_superseded_is_one_conversation_with_the_call_it_repeats(visit: Visit) -> None:
    visit.go("#/trajectories/job%2Fcaptured")
    rows = tree(visit)
    assert [row[0] for row in rows] == [
        "c0.0 error attempt 1/2 superseded not trained",
        "c1.0 attempt 2/2 not trained",
        "c2.0 not trained",
    ]
    assert rows[0][1] == "error" and rows[1][3:5] == ["9", "3"]
    assert rows[2][6] == "4 s"


def test_keys_walk_through_the_steps(visit: Visit) -> None:
    visit.go(f"{ALPHA}?step=alpha.0")
    visit.page.locator("#step-title", has_text="alpha.0").wait_for()
    tree(visit)
    for key, step in (
        ("]", "alpha.1"),
        ("]", "alpha.1-retry"),
        ("]", "alpha.2a"),
        ("[", "alpha.1-retry"),
        ("p", "alpha.0"),
    ):
        visit.page.locator(".summary").wait_for()
        visit.page.keyboard.press(key)
        visit.until("(step) => new URLSearchParams(location.hash.split('?')[1]).get('step') === step", step)
    assert visit.page.locator(".tree tr.current").inner_text().split()[0] == "alpha.0"
    visit.page.locator(".summary").wait_for()
    visit.page.keyboard.press("u")
    visit.page.locator(".step").wait_for(state="detached")
    assert visit.page.url.endswith(ALPHA)
    visit.page.keyboard.press("?")
    keys = visit.page.get_by_role("dialog").inner_text()
    assert "the step below" in keys and "the step above" in keys


def test_j_and_k_open_steps_one_after_another(visit: Visit) -> None:
    visit.go(f"{ALPHA}?step=alpha.0")
    visit.page.locator(".summary").wait_for()
    for key in ("j", "j", "j"):  # the heading, alpha.0, alpha.1
        visit.page.keyboard.press(key)
    visit.page.locator("#step-title", has_text="alpha.1").wait_for()
    assert visit.page.url.endswith("step=alpha.1")


def test_a_step_of_which_only_the_id_is_known_is_found_in_its_trajectory(visit: Visit) -> None:
    visit.go("#/trajectories?step=search.1")
    visit.page.locator("#step-title", has_text="search.1").wait_for()
    tree(visit)
    assert visit.page.url.endswith(f"{ALPHA}?step=search.1")


def test_what_is_not_there_is_said(visit: Visit) -> None:
    visit.allowed.append("404")
    visit.go("#/trajectories/nowhere")
    visit.page.get_by_role("alert").wait_for()
    assert "there is no trajectory 'nowhere'" in visit.page.get_by_role("alert").inner_text()
    visit.page.goto(f"{visit.url}/{ALPHA}?step=nothing")
    visit.page.locator(".step [role=alert]").wait_for()
    assert "there is no step 'nothing'" in visit.page.locator(".step [role=alert]").inner_text()
    assert len(tree(visit)) == 9


def test_the_tree_fits_a_phone(visit_of: Any) -> None:
    visit = visit_of(phone=True, color_scheme="dark")
    visit.go(f"{ALPHA}?step=alpha.2b")
    visit.page.locator(".summary").wait_for()
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    visit.check_accessible()
    visit.picture("trajectory-phone")
