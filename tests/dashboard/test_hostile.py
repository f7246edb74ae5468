"""Amounts that would freeze a page, and words that are no words: what is in the page stays small, and says what it is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dashboard.filled import NAME
from tests.dashboard.house import House
from tests.dashboard.visit import Visit

MANY = 1500
LETTERS = "document.querySelector('main').textContent.length"


@pytest.fixture
def huge(house: House) -> None:
    """A step with very many messages, one with a message of very many parts, one with ten million letters: none fits into a page."""
    text = "lorem ipsum " * 160
    parts = [{"type": "text", "text": f"{number} {text}"} for number in range(MANY)]
    steps: dict[str, Any] = {
        "messages": [{"role": "user", "content": one["text"]} for one in parts],
        "parts": [{"role": "user", "content": parts}],
        "letters": [{"role": "user", "content": "x" * 10_000_000}],
    }
    for name, messages in steps.items():
        house.put("/steps", {"step_id": name, "trajectory_id": "huge", "messages": messages, "response": "done"})
    house.commit()


@pytest.mark.usefixtures("huge")
@pytest.mark.parametrize("place", ["#/trajectories/huge?step={}&tab=messages", "#/curate/step/{}"])
@pytest.mark.parametrize("step", ["messages", "parts", "letters"])
def test_ten_megabytes_are_shown_a_piece_at_a_time(visit: Visit, place: str, step: str) -> None:
    visit.go(place.format(step))
    visit.page.locator(".message pre").first.wait_for()
    visit.page.get_by_text("done").first.wait_for()
    assert visit.page.evaluate(LETTERS) < 100_000
    more = {"messages": "earlier message", "parts": "more parts", "letters": "Show all"}[step]
    before = visit.page.evaluate(LETTERS)
    visit.page.get_by_role("button", name=more).click()
    visit.until(f"(before) => {LETTERS} > before", before)
    assert visit.page.evaluate(LETTERS) < 200_000


def test_the_name_of_a_choice_is_only_a_name(visit: Visit, house: House) -> None:
    step = {"step_id": "s", "group_id": f"g{NAME}", "trajectory_id": "t", "prompt_ids": [1], "response_ids": [2]}
    house.put("/steps", step)
    house.commit()
    visit.go("#/optimise")
    visit.page.get_by_label("prompt group").fill(f"g{NAME}")
    visit.page.get_by_role("button", name="Show").click()
    canvas = visit.page.locator(".icicle canvas")
    canvas.wait_for(timeout=60_000)
    said = visit.page.locator("main").inner_text() + (canvas.get_attribute("aria-label") or "")
    assert "⟨U+202E⟩" in said and "\u202e" not in said
    assert visit.page.evaluate("window.hit") is None


def test_an_address_from_elsewhere_is_no_link(visit: Visit) -> None:
    visit.go()
    attempts = [
        "//x.example/a",
        "/\\x.example/a",
        "/\t/x.example/a",
        "https://x.example",
        " javascript:1",
        "data:text/html,1",
    ]
    shown: Any = visit.page.evaluate(
        """async (addresses) => {
            const { html, render } = await import("/assets/js/lib/html.js");
            return [...addresses, "#/curate", "/assets/icon.svg"].map((address) => {
                const box = document.createElement("div");
                render(html`<a href=${address}>a</a>`, box);
                return box.firstChild.getAttribute("href");
            });
        }""",
        attempts,
    )
    assert shown == [*[None] * len(attempts), "#/curate", "/assets/icon.svg"]


def test_what_went_wrong_is_told_without_hidden_letters(visit: Visit) -> None:
    visit.allowed.append("422")
    problem = {"title": "No", "detail": "there is no \u202etxt"}
    visit.page.route("**/api/v1/datasets", lambda route: route.fulfill(status=422, json=problem))
    visit.go("#/consume")
    assert "there is no ⟨U+202E⟩txt" in visit.page.get_by_role("alert").inner_text()
    visit.page.evaluate(
        "async () => (await import('/assets/js/lib/toast.js')).complain(new Error('no such \u202ename'))"
    )
    assert "no such ⟨U+202E⟩name" in visit.page.locator(".toast").inner_text()
