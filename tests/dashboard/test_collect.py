"""Collect: the live tail, who brings records."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.dashboard.filled import fill, hostile
from tests.dashboard.house import House
from tests.dashboard.visit import Visit

ROWS = "table[aria-label^='Steps and events'] tbody tr:not(.gap)"


def live(house: House, names: str, many: int, **more: Any) -> None:
    """So many more steps, committed."""
    steps = [
        {"step_id": f"{names}.{turn:02}", "trajectory_id": names, "prompt_ids": [1], "response_ids": [2], **more}
        for turn in range(many)
    ]
    house.put("/steps", *steps)
    house.commit()


def came(visit: Visit, steps: int, events: int) -> None:
    """Wait until the tail says that so many came."""
    words = f"{steps} step{'' if steps == 1 else 's'} and {events} event{'' if events == 1 else 's'} came"
    visit.until("(words) => document.querySelector('[data-figure=received]')?.textContent.includes(words)", words)


def listening(visit: Visit) -> None:
    visit.page.locator(".tail .badge.good", has_text="live").wait_for()


def test_what_is_committed_appears(visit: Visit, house: House) -> None:
    fill(house)
    visit.go("#/collect")
    listening(visit)
    visit.until("(rows) => document.querySelectorAll(rows).length > 20", ROWS)
    live(house, "now", 5, model="newest", usage={"prompt_tokens": 1, "completion_tokens": 1})
    house.put("/feedback", {"feedback_id": "f", "trajectory_id": "now", "reward": 0.5, "author": "somebody"})
    house.commit()
    came(visit, 5, 1)
    first = visit.page.locator(ROWS).first.inner_text().split("\t")
    assert first[0].strip() != "–"
    assert [part.strip() for part in first if part.strip()][1:] == ["reward", "trajectory now", "f", "somebody", "+0.5"]
    second = visit.page.locator(ROWS).nth(1).inner_text()
    assert re.split(r"\s+", second.strip()) == ["–", "ok", "now", "now.04", "newest", "1", "+", "1", "–", "–"]


def test_paused_it_stands_still_and_nothing_is_lost(visit: Visit, house: House) -> None:
    visit.go("#/collect")
    listening(visit)
    live(house, "before", 2)
    came(visit, 2, 0)
    visit.page.keyboard.press("p")
    live(house, "meanwhile", 3)
    visit.page.get_by_role("button", name="Go on (3 new)").wait_for()
    assert visit.page.locator(ROWS).count() == 2
    visit.page.get_by_role("button", name="Go on (3 new)").click()
    visit.until("(rows) => document.querySelectorAll(rows).length === 5", ROWS)


def test_it_shows_what_is_asked_for(visit: Visit, house: House) -> None:
    fill(house)
    visit.go("#/collect?show=bad")
    visit.until("(rows) => document.querySelectorAll(rows).length === 2", ROWS)
    visit.page.get_by_role("button", name="all", exact=True).click()
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("llama-3")
    visit.until("(rows) => document.querySelectorAll(rows).length === 10", ROWS)
    assert visit.page.evaluate("location.hash") == "#/collect?q=llama-3"
    visit.page.get_by_role("searchbox").fill("nothing of this name")
    visit.page.get_by_text("None of what came is of this kind.").wait_for()


def test_keys_choose_a_row_and_open_it(visit: Visit, house: House) -> None:
    fill(house)
    visit.go("#/collect")
    visit.until("(rows) => document.querySelectorAll(rows).length > 20", ROWS)
    for key in "jjk":
        visit.page.keyboard.press(key)
    chosen = visit.page.locator("tr.chosen").inner_text().split()
    assert chosen == visit.page.locator(ROWS).first.inner_text().split()
    visit.allowed.append("trajectories")
    visit.page.keyboard.press("Enter")
    assert visit.page.evaluate("location.hash") == "#/trajectories/run%2F5?step=run%2F5.4"


def test_a_stream_that_is_cut_goes_on_where_it_was(visit: Visit, house: House) -> None:
    visit.go("#/collect")
    listening(visit)
    live(house, "before", 2)
    came(visit, 2, 0)
    house.app.state.streams.ending = True
    visit.page.get_by_text("cut off, comes again").wait_for()
    live(house, "meanwhile", 4)
    house.app.state.streams.ending = False
    came(visit, 6, 0)
    assert visit.page.locator(ROWS).count() == 6


def test_at_fifty_a_second_all_are_told_of_and_few_are_in_the_page(visit: Visit, house: House) -> None:
    visit.go("#/collect")
    listening(visit)
    visit.page.evaluate(
        """() => { window.most = 0; const look = () => { window.most = Math.max(window.most, document.querySelectorAll('main tr').length);
            requestAnimationFrame(look); }; look(); }"""
    )
    for number in range(24):
        live(house, f"burst{number}", 25)
    came(visit, 600, 0)
    assert "500 of the newest 500 listed" in visit.page.locator("[data-figure=received]").inner_text()
    assert visit.page.evaluate("window.most") < 60
    assert visit.page.locator(ROWS).first.inner_text().split()[2:4] == ["burst23", "burst23.24"]


def test_the_spools_and_the_clients(visit: Visit, house: House) -> None:
    fill(house)
    house.put("/steps", {"step_id": "waits", "prompt_ids": [1], "response_ids": [2]})
    visit.go("#/collect/producers")
    row = visit.page.get_by_role("table").first.get_by_role("row").nth(1)
    row.wait_for()
    cells = [re.sub(r"\s+", " ", cell) for cell in row.get_by_role("cell").all_inner_texts()]
    records = house.get("/health")["spool"]
    assert cells[:5] == ["runs", "gateway.db", str(records["last"]), str(records["committed"]), "1"]
    assert cells[6] == "0"
    client = visit.page.get_by_role("table").nth(1).get_by_role("row").nth(1)
    assert client.get_by_role("rowheader").inner_text() == "testclient"
    assert client.get_by_role("cell").all_inner_texts()[2:4] == ["7", "0"]
    visit.check_accessible()
    visit.picture("collect-producers")


def test_it_is_for_everybody(visit_of: Callable[..., Visit], house: House) -> None:
    fill(house)
    for phone in (False, True):
        for scheme in ("light", "dark"):
            visit = visit_of(phone=phone, color_scheme=scheme)
            visit.go("#/collect")
            listening(visit)
            visit.until("(rows) => document.querySelectorAll(rows).length > 20", ROWS)
            visit.page.keyboard.press("j")
            visit.check_accessible()
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            visit.picture(f"collect-{'phone' if phone else 'wide'}-{scheme}")


def test_hostile_words_are_only_words(visit: Visit, house: House) -> None:
    visit.go("#/collect")
    listening(visit)
    hostile(house)
    came(visit, 1, 1)
    shown = visit.page.locator("main").inner_text()
    assert "step_id<script" in shown and "⟨U+202E⟩" in shown and "\u202e" not in shown
    assert visit.page.locator("main script, main img").count() == 0
    visit.page.locator(ROWS).nth(1).hover()
    assert visit.page.evaluate("window.hit") is None
    visit.picture("collect-hostile")
