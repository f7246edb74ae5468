"""The overview: every figure against what the test put there."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from tests.dashboard.filled import fill, hostile
from tests.dashboard.house import House
from tests.dashboard.visit import Visit


def test_the_figures_are_those_of_the_warehouse(visit: Visit, house: House) -> None:
    steps = fill(house)
    today = [step for step in steps if datetime.fromisoformat(step["finished_at"]).date() == datetime.now(UTC).date()]
    errors = sum(step["status"] == "error" for step in today)
    visit.go()
    visit.page.locator(".stat", has_text=f"{len(today)} today").first.wait_for()
    figures = {
        name: visit.figure(name)
        for name in ("Steps", "Calls today", "Errors today", "Quarantined", "Waiting in spools")
    }
    assert figures == {
        "Steps": str(len(steps)),
        "Calls today": str(len(today)),
        "Errors today": str(errors),
        "Quarantined": "0",
        "Waiting in spools": "0",
    }
    beside = {
        name: visit.page.locator(".stat", has_text=name).locator(".detail").inner_text()
        for name in ("Calls today", "Tokens today", "Errors today")
    }
    # How many that are, the interface's tests say: here a minute may be over.
    patterns = {
        "Calls today": r"\d+ a minute",
        "Tokens today": r"\d+ a minute",
        "Errors today": r"\d+ a minute, 2 in all",
    }
    assert all(re.fullmatch(patterns[name], detail) for name, detail in beside.items()), beside
    assert visit.page.locator("h1 + .badge").inner_text() == "ready"
    stages = visit.page.locator(".flow li").all_inner_texts()
    assert [re.sub(r"\s+", " ", stage) for stage in stages] == [
        f"Collect {len(today)} calls 30 steps in all",
        f"Trajectories {len({step['trajectory_id'] for step in today})} trajectories 6 in all, 2 open",
        "Curate 7 events 3 rewards; 3 of 6 trajectories rewarded",
        "Optimise 0 groups ready of 2; 30 trainable steps",
        "Consume 0 dataset versions made today",
    ]


def test_what_the_steps_are_of_leads_to_them(visit: Visit, house: House) -> None:
    fill(house)
    visit.go()
    models = visit.page.get_by_role("list", name="By model")
    models.wait_for()
    rows = [re.sub(r"\s+", " ", row) for row in models.get_by_role("listitem").all_inner_texts()]
    assert sorted(rows) == ["gpt-4o-mini 10 33 %", "llama-3 10 33 %", "qwen-rl 10 33 %"]
    assert models.get_by_role("link", name="llama-3").get_attribute("href") == "#/trajectories?model=llama-3"
    agents = visit.page.get_by_role("list", name="By agent").get_by_role("listitem").all_inner_texts()
    assert sorted(agent.split()[:2] for agent in agents) == [["browser", "15"], ["coder", "15"]]
    versions = visit.page.get_by_role("list", name="By policy version")
    assert [row.split()[:3] for row in versions.get_by_role("listitem").all_inner_texts()] == [
        ["rl", "1", "15"],
        ["rl", "0", "15"],
    ]
    link = versions.get_by_role("link", name="rl 1").get_attribute("href")
    assert link == "#/trajectories?policy=rl&policy_version_min=1&policy_version_max=1"
    states = visit.page.get_by_role("list", name="By status").get_by_role("listitem").all_inner_texts()
    assert [state.split() for state in states] == [["ok", "28", "93", "%"], ["error", "2", "7", "%"]]


def test_the_charts_draw_what_was_and_the_address_says_which(visit: Visit, house: House) -> None:
    steps = fill(house)
    visit.go()
    chart = visit.page.get_by_role("img", name="Steps: engine 30")
    chart.wait_for()
    chart.locator("canvas").wait_for()
    visit.page.get_by_role("img", name="Errors: engine 2").wait_for()
    visit.page.get_by_role("button", name="model", exact=True).click()
    visit.page.get_by_role("button", name="15 min").click()
    visit.page.get_by_role("img", name=re.compile("Steps: .*qwen-rl 10")).wait_for()
    assert visit.page.evaluate("location.hash") == "#/overview?by=model&window=15m"
    tokens = sum(len(step["prompt_ids"]) + len(step["response_ids"]) for step in steps if step["model"] == "llama-3")
    visit.page.get_by_role("img", name=re.compile(f"Tokens: .*llama-3 {tokens}")).wait_for()
    visit.page.reload()
    visit.page.get_by_role("img", name=re.compile("Steps: .*qwen-rl 10")).wait_for()
    assert visit.page.get_by_role("button", name="15 min").get_attribute("aria-pressed") == "true"


def test_what_needs_attention_leads_there(visit: Visit, house: House) -> None:
    fill(house)
    visit.go()
    item = visit.page.locator(".attention li", has_text="have no reward")
    item.wait_for()
    assert item.inner_text().split()[0] == "1"
    assert item.get_by_role("link").get_attribute("href") == "#/trajectories?ended=true&has_reward=false"


def test_an_empty_warehouse_is_no_error(visit: Visit) -> None:
    visit.go()
    visit.page.get_by_text("Nothing. Captures are kept").wait_for()
    visit.page.get_by_text("none in this time").first.wait_for()
    assert visit.figure("Steps") == "0"
    assert visit.page.get_by_role("alert").count() == 0


def test_new_figures_come_by_themselves(visit: Visit, house: House) -> None:
    visit.go()
    visit.page.get_by_text("Nothing. Captures are kept").wait_for()
    fill(house)
    visit.until(
        "[...document.querySelectorAll('.stat')].some((s) => s.textContent.startsWith('Steps30'))", patience=120_000
    )


def test_it_is_for_everybody(visit_of: Callable[..., Visit], house: House) -> None:
    fill(house)
    for phone in (False, True):
        for scheme in ("light", "dark"):
            visit = visit_of(phone=phone, color_scheme=scheme)
            visit.go()
            visit.page.get_by_role("img", name="Steps: engine 30").locator("canvas").wait_for()
            visit.check_accessible()
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            visit.picture(f"overview-{'phone' if phone else 'wide'}-{scheme}")


def test_hostile_words_are_only_words(visit: Visit, house: House) -> None:
    hostile(house)
    visit.go()
    visit.page.get_by_role("list", name="By model").wait_for()
    visit.page.get_by_role("button", name="model", exact=True).click()
    visit.page.get_by_role("img", name=re.compile("Steps: model<script>")).wait_for()
    shown = visit.page.get_by_role("list", name="By model").inner_text()
    assert "model<script>window.hit=1</script><img" in shown and "⟨U+202E⟩" in shown
    assert visit.page.locator("main script, main img").count() == 0
    assert visit.page.evaluate("window.hit") is None
    visit.picture("overview-hostile")
