"""The step inspector: messages, thinking, tool calls, images; times; the raw call; neighbours; how two prompts differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.dashboard import rollouts
from tests.dashboard.filled import HOSTILE, hostile
from tests.dashboard.house import House, open_house
from tests.dashboard.visit import Visit

ALPHA = "#/trajectories/job%2Falpha"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house")) as opened:
        rollouts.fill(opened)
        rollouts.captured(opened)
        hostile(opened)
        yield opened


def opened(visit: Visit, step: str, tab: str = "", *, of: str = ALPHA) -> Any:
    """The panel of a step's tab, once it is there."""
    visit.go(f"{of}?step={step}{f'&tab={tab}' if tab else ''}")
    panel = visit.page.locator("#tab-panel")
    panel.wait_for()
    return panel


def figure(visit: Visit, name: str) -> str:
    found = visit.page.locator(f"[data-figure='{name}']")
    found.wait_for()
    return " ".join(str(found.inner_text()).split())


def test_messages_stand_by_role_with_thinking_tool_calls_and_results(visit: Visit) -> None:
    panel = opened(visit, "alpha.1")
    roles = [" ".join(one.split()) for one in panel.locator(".message > header").all_inner_texts()]
    assert roles == [
        "▸ system 1 You repair builds.",
        "▸ user 2 The build fails. Repair it.",
        "▸ assistant 3 First look at the log, then decide.",
        "▾ tool 4",
        "▾ assistant answer",
    ]
    assert panel.get_by_label("Message 4").locator("pre").inner_text() == "error: missing header zlib.h"
    assert panel.get_by_label("Answer", exact=True).locator("pre").inner_text() == "Install zlib1g-dev."
    earlier = panel.get_by_label("Message 3")
    earlier.get_by_role("button", name="assistant").click()
    assert earlier.locator(".reasoning pre").inner_text() == "First look at the log, then decide."
    assert earlier.locator(".call b").inner_text() == "read_file"
    assert earlier.locator(".call pre").inner_text() == '{\n  "path": "build.log",\n  "lines": 20\n}'
    earlier.get_by_role("button", name="thinking").click()
    assert earlier.locator(".reasoning pre").count() == 0
    visit.check_accessible()
    visit.picture("step")


def test_the_figures_are_the_steps(visit: Visit) -> None:
    opened(visit, "alpha.1")
    assert figure(visit, "step reward") == "+1 of its trajectory"
    assert figure(visit, "step prompt") == "26 tokens"
    assert figure(visit, "step answer") == "4 tokens"
    assert figure(visit, "step took") == "3.5 s"
    assert figure(visit, "step version") == "3 rl"
    assert figure(visit, "step model") == "qwen-rl"
    assert visit.page.locator(".summary").inner_text().split()[:4] == ["ok", "attempt", "1/2", "neat"]
    assert "neat" in visit.page.locator(".step .events").inner_text()


def test_tools_are_told_and_images_are_shown_from_their_own_bytes(visit: Visit) -> None:
    panel = opened(visit, "alpha.0")
    assert panel.locator(".tools-told summary").inner_text() == "1 tool: read_file"
    panel = opened(visit, "alpha.2a")
    image = panel.locator(".image img")
    image.wait_for()
    assert image.get_attribute("src") == rollouts.IMAGE
    visit.until("document.querySelector('.image img').naturalWidth === 1")


def test_times_and_tokens_are_told(visit: Visit) -> None:
    opened(visit, "c1.0", "details", of="#/trajectories/job%2Fcaptured")
    assert figure(visit, "took") == "4 s"
    assert figure(visit, "first byte after") == "1 s"
    assert figure(visit, "input, as counted by the provider") == "9"
    assert figure(visit, "output, as counted by the provider") == "3"
    opened(visit, "alpha.1", "details")
    assert figure(visit, "first token after") == "750 ms"
    assert figure(visit, "tokens a second, once it began") == "1.455"  # 4 tokens in 2.75 s
    assert figure(visit, "prompt ids") == "26" and figure(visit, "response ids") == "4"
    assert visit.page.locator("dt", has_text="call_id").locator("+ dd").inner_text() == "call-2"
    visit.check_accessible()


def test_the_raw_call_is_shown_where_it_was_kept_and_else_which_setting_keeps_it(visit: Visit) -> None:
    panel = opened(visit, "c0.0", "raw", of="#/trajectories/job%2Fcaptured")
    request, response = panel.get_by_label("Request", exact=True), panel.get_by_label("Response", exact=True)
    request.wait_for()
    assert "https://api.example.com/v1/chat/completions" in request.inner_text()
    assert '"content": "Hello"' in request.locator("pre").inner_text()
    assert "status 500" in " ".join(response.locator("p").first.inner_text().split())
    assert '"message": "boom"' in response.locator("pre").inner_text()
    assert "of-nobody" not in panel.inner_text()
    visit.check_accessible()
    visit.allowed.append("404")
    panel = opened(visit, "alpha.1", "raw")
    panel.get_by_text("ingest.raw").wait_for()


def test_neighbours_in_the_group_can_be_opened_and_compared(visit: Visit) -> None:
    panel = opened(visit, "alpha.0", "group")
    assert figure(visit, "group trajectories") == "2 2 ended"
    assert figure(visit, "group rewarded") == "2"
    assert figure(visit, "group mean") == "+0.5 ± 0.5"
    members = [row.split("\t") for row in panel.locator(".members tbody tr").all_inner_texts()]
    assert members == [["job/alpha", "completed", "+1", "7", "19"], ["job/beta", "completed", "0", "1", "3"]]
    rows = panel.locator(".group-steps tbody tr")
    rows.first.wait_for()
    steps = [row.split("\t")[0] for row in rows.all_inner_texts()]
    assert sorted(steps) == ["alpha.0", "beta.0", "search.0"]
    visit.check_accessible()
    visit.picture("step-group")
    rows.filter(has_text="beta.0").get_by_role("button").click()
    visit.page.locator("[data-figure='diff messages']").wait_for()
    assert visit.page.url.endswith("&tab=diff&with=beta.0")


def test_two_prompts_are_compared_by_message_and_by_token(visit: Visit) -> None:
    panel = opened(visit, "alpha.0", "diff&with=beta.0")
    said = "1 message from the beginning is the same, of 2 here and 2 there; the prompts differ in 1 place."
    assert figure(visit, "diff messages") == said
    assert figure(visit, "diff tokens").startswith(
        "8 of 12 and 11 prompt ids are the same from the beginning, 0 from the end."
    )
    assert panel.locator(".piece.a pre").inner_text() == "The build fails. Repair it."
    assert panel.locator(".piece.b pre").inner_text() == "The build fails. Repair it, please."
    assert [text.strip() for text in panel.locator(".ids.a mark").all_inner_texts()] == ["9", "10", "11", "12"]
    assert [text.strip() for text in panel.locator(".ids.b mark").all_inner_texts()] == ["33", "34", "35"]
    visit.check_accessible()
    visit.picture("step-difference")
    panel.locator(".ids.a a").click()
    visit.page.locator(".token.cursor").wait_for()
    assert visit.page.locator(".token.cursor").get_attribute("data-at") == "8"


def test_what_to_compare_with_is_offered(visit: Visit) -> None:
    panel = opened(visit, "alpha.2b", "diff")
    names = panel.locator(".compare button.small").all_inner_texts()
    assert [" ".join(name.split()) for name in names] == ["parent alpha.1", "branch alpha.2a", "Compare"]
    panel.get_by_role("button", name="parent").click()
    assert figure(visit, "diff messages").startswith(
        "4 messages from the beginning are the same, of 6 here and 4 there"
    )
    panel.get_by_label("Step").fill("alpha.2a")
    panel.get_by_role("button", name="Compare").click()
    visit.page.locator("[data-figure='diff messages']", has_text="5 messages from the beginning").wait_for()
    assert visit.page.url.endswith("tab=diff&with=alpha.2a")


def test_tabs_are_reached_by_keys(visit: Visit) -> None:
    opened(visit, "alpha.1")
    for key, tab in (("2", "Tokens"), ("3", "Details"), ("1", "Messages")):
        visit.page.keyboard.press(key)
        visit.page.locator("[role=tab][aria-selected=true]", has_text=tab).wait_for()
    visit.page.locator("[role=tab][aria-selected=true]").focus()
    visit.page.keyboard.press("ArrowLeft")
    visit.page.locator("[role=tab][aria-selected=true]", has_text="Difference").wait_for()


@pytest.mark.parametrize("tab", ["messages", "details", "group", "diff"])
def test_words_of_an_attacker_are_inert(visit: Visit, house: House, tab: str) -> None:
    visit.page.goto("about:blank")
    visit.go("#/trajectories?of=steps")
    row = visit.page.locator(".lists tbody tr", has_text="step_id<script>").first
    row.locator("td").first.click()
    visit.page.locator(".summary").wait_for()
    visit.page.get_by_role("tab").filter(has_text={"diff": "Difference"}.get(tab, tab.capitalize())).click()
    visit.page.locator("[role=tabpanel]").wait_for()
    visit.until("!document.querySelector('main .wait, main .stale')")
    said = visit.page.locator("main").inner_text()
    assert "<script>window.hit=1</script>" in said or tab == "diff"
    assert "\u202e" not in said and "\x07" not in said
    assert visit.page.evaluate("window.hit") is None
    assert visit.page.locator("main script, main img").count() == 0
    if tab == "messages":
        assert visit.page.locator(".message pre").first.inner_text() == HOSTILE.replace("\u202e", "⟨U+202E⟩").replace(
            "\x07", "␇"
        )
    visit.check_accessible()
