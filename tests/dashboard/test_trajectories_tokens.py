"""The token view: prompt and answer, loss, colours, ids and texts, choosing and copying; and a step of 32,768 tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.dashboard import rollouts
from tests.dashboard.house import House, open_house
from tests.dashboard.visit import Visit

AGAIN = [*range(1, 13), *range(50, 58), *range(20, 26)]
"""The prompt of `alpha.1`."""
BRANCH = [*AGAIN, 60, 99, 98, 97, 70, 71]
"""Prompt and answer of `alpha.2b`."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house")) as opened:
        rollouts.fill(opened)
        rollouts.long_step(opened)
        rollouts.told(opened)
        yield opened


def opened(visit: Visit, step: str, more: str = "", *, of: str = "job%2Falpha") -> Any:
    visit.go(f"#/trajectories/{of}?step={step}&tab=tokens{more}")
    visit.page.locator(".token-row").first.wait_for()
    return visit.page.locator(".token-rows")


def figure(visit: Visit, name: str) -> str:
    return " ".join(str(visit.page.locator(f"[data-figure='tokens {name}']").inner_text()).split())


def places(visit: Visit, kind: str) -> list[int]:
    """Positions of the tokens in the page that are marked so."""
    found: list[int] = visit.page.evaluate(
        "(kind) => [...document.querySelectorAll(`.token-rows .${kind}`)].map((token) => Number(token.dataset.at))",
        kind,
    )
    return found


def pointed(visit: Visit) -> str:
    return " ".join(str(visit.page.locator(".pointed").inner_text()).split())


def test_prompt_and_answer_are_shown_as_ids_where_no_tokenizer_is(visit: Visit) -> None:
    opened(visit, "alpha.2b")
    assert [int(text) for text in visit.page.locator(".token-rows .token").all_inner_texts()] == BRANCH
    assert visit.page.locator(".token-head").all_inner_texts() == ["Prompt, 30 tokens", "Answer, 2 tokens"]
    assert "No tokenizer for these ids" in visit.page.locator(".token-key").inner_text()
    assert figure(visit, "prompt") == "30 9 sampled earlier"
    assert figure(visit, "answer") == "2" and figure(visit, "with a loss") == "2"
    assert figure(visit, "mean logprob") == "−0.375"
    visit.page.locator("[data-figure='tokens advantage']", has_text="GRPO").wait_for()
    assert (
        figure(visit, "advantage") == "+0.707 GRPO, as of now"
    )  # rewards 1 and 0: half a reward over the deviation of two
    assert figure(visit, "ids") == "engine qwen3"
    visit.check_accessible()


def test_loss_earlier_answers_and_drift_are_marked(visit: Visit) -> None:
    opened(visit, "alpha.2b")
    assert places(visit, "loss") == [30, 31]
    assert places(visit, "earlier") == [*range(12, 20), 26]
    assert places(visit, "drifts") == [27]
    assert places(visit, "of-prompt") == list(range(30))
    visit.page.get_by_role("button", name="Drift at 27").click()
    visit.page.locator(".token.cursor[data-at='27']").wait_for()
    assert "27 prompt id 99 logprob – loss no" in pointed(visit)


def test_colours_are_by_logprob_advantage_or_loss(visit: Visit) -> None:
    opened(visit, "alpha.1")  # logprobs -0.25, -0.5, -0.75, -1: probabilities 0.78, 0.61, 0.47, 0.37
    assert [places(visit, f"lp{level}") for level in range(4)] == [[], [26], [27], [28, 29]]
    visit.page.locator("[data-figure='tokens advantage']", has_text="GRPO").wait_for()
    colour = visit.page.get_by_role("group", name="Colour")
    colour.get_by_role("button", name="advantage").click()
    visit.until("document.querySelectorAll('.token-rows .up2').length === 4")
    assert places(visit, "lp1") == []
    visit.check_accessible()
    colour.get_by_role("button", name="loss mask").click()
    visit.until("document.querySelectorAll('.token-rows .masked').length === 4")
    assert visit.page.url.endswith("&colour=mask")
    visit.page.reload()
    visit.page.locator(".token-row").first.wait_for()
    assert places(visit, "masked") == [26, 27, 28, 29]


def test_a_step_that_lost_is_coloured_the_other_way(visit: Visit) -> None:
    opened(visit, "beta.0", "&colour=advantage", of="job%2Fbeta")
    visit.until("document.querySelectorAll('.token-rows .down2').length === 3")
    assert figure(visit, "advantage") == "−0.707 GRPO, as of now"


def test_pointing_tells_id_logprob_and_who_sampled_it(visit: Visit) -> None:
    rows = opened(visit, "alpha.2b")
    rows.locator("[data-at='31']").hover()
    visit.page.locator(".pointed", has_text="answer 1").wait_for()
    visit.page.locator("[data-figure='tokens advantage']", has_text="GRPO").wait_for()
    assert pointed(visit) == "31 answer 1 id 71 logprob −0.5 p 0.6065 loss yes advantage +0.7071"
    rows.locator("[data-at='13']").hover()
    visit.page.locator(".pointed", has_text="answer of").wait_for()
    assert pointed(visit) == "13 prompt id 51 logprob – loss no answer of alpha.0"


def test_arrows_walk_shift_takes_and_copying_copies(visit: Visit) -> None:
    rows = opened(visit, "alpha.2b")
    rows.locator("[data-at='12']").click()
    rows.focus()
    for _ in range(3):
        visit.page.keyboard.press("Shift+ArrowRight")
    visit.page.get_by_role("button", name="Copy 4 taken ids").click()
    assert json.loads(visit.page.evaluate("navigator.clipboard.readText()")) == BRANCH[12:16]
    visit.until("location.hash.endsWith('&at=12&to=16')")
    visit.page.reload()
    visit.page.locator(".token.cursor").wait_for()
    assert places(visit, "taken") == [12, 13, 14, 15]
    rows.focus()
    visit.page.keyboard.press("ArrowLeft")
    visit.page.locator(".token.cursor[data-at='11']").wait_for()
    visit.page.get_by_role("button", name="Copy all ids").click()
    assert json.loads(visit.page.evaluate("navigator.clipboard.readText()")) == BRANCH


def test_a_step_without_ids_says_so(visit: Visit) -> None:
    visit.go("#/trajectories/job%2Falpha?step=alpha.2a&tab=tokens")
    visit.page.get_by_text("This step has no token ids").wait_for()


def test_a_step_of_32k_tokens_is_whole_and_only_rows_in_view_are_in_the_page(visit: Visit) -> None:
    rows = opened(visit, "long.0", of="job%2Flong")
    assert (
        figure(visit, "prompt") == "24,768"
        and figure(visit, "answer") == "8,000"
        and figure(visit, "with a loss") == "8,000"
    )
    assert figure(visit, "mean logprob") == "−2.438"  # the mean of 0, 1/8, … 39/8
    _is_small(visit)
    assert places(visit, "token")[0] == 0
    visit.page.get_by_role("button", name="Answer", exact=True).click()
    visit.page.locator(".token-head", has_text="Answer, 8,000 tokens").wait_for()
    answer = rows.locator(f"[data-at='{rollouts.LONG_PROMPT}']")
    answer.wait_for()
    assert answer.inner_text() == "7"
    rows.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
    last = rows.locator("[data-at='32767']")
    last.wait_for()
    assert last.inner_text() == str(7 + 7_999 % 50)
    last.hover()
    visit.page.locator(".pointed", has_text="answer 7,999").wait_for()
    assert f"logprob −{(7_999 % 40) / 8}" in pointed(visit)
    _is_small(visit)
    visit.page.get_by_label("Position").fill("12345")
    visit.page.keyboard.press("Enter")
    visit.page.locator(".token.cursor[data-at='12345']").wait_for()
    assert rows.locator("[data-at='12345']").inner_text() == str(100 + 12_345)
    visit.check_accessible()


def _is_small(visit: Visit) -> None:
    """Some hundreds of tokens of the 32,768."""
    assert visit.page.locator(".token-row").count() < 60
    assert 100 < visit.page.locator(".token-rows .token").count() < 2_500


DRAWN = """() => {
    const box = document.querySelector('.token-rows');
    const from = Math.max(0, Math.floor(box.scrollTop / 22) - 8) * 22;
    return box.querySelector('.token-all > div').style.transform === `translateY(${from}px)`;
}"""
"""The rows from eight above the first that is in view are in the page: drawing has caught up with scrolling."""


def test_every_token_is_in_exactly_one_row(visit: Visit) -> None:
    rows = opened(visit, "long.0", "&show=ids", of="job%2Flong")
    seen: set[int] = set()
    height, end = rows.evaluate("(element) => [element.clientHeight, element.scrollHeight]")
    for top in range(0, int(end), int(height)):
        rows.evaluate("(element, top) => { element.scrollTop = top; }", top)
        visit.until(DRAWN)
        found = places(visit, "token")
        assert found == list(range(found[0], found[-1] + 1))
        seen.update(found)
    assert seen == set(range(rollouts.LONG_PROMPT + rollouts.LONG_RESPONSE))


def test_texts_are_shown_where_a_tokenizer_is_and_are_inert(visit: Visit) -> None:
    opened(visit, "told.0", of="job%2Ftold")
    signs = {" ": "·", "\n": "↵", "\t": "⇥", "\u202e": "⟨U+202E⟩"}
    texts = [rollouts.WORDS[one] for one in rollouts.TOLD]
    wanted = ["".join(signs.get(letter, letter) for letter in text) or "∅" for text in texts]
    assert visit.page.locator(".token-rows .token").all_inner_texts() == wanted
    assert visit.page.locator(".token-rows b").count() == 0
    visit.page.get_by_role("button", name="Copy all text").click()
    assert visit.page.evaluate("navigator.clipboard.readText()") == "".join(texts)
    visit.check_accessible()
    visit.picture("tokens-texts")
    visit.page.get_by_role("group", name="Show").get_by_role("button", name="ids").click()
    visit.until("document.querySelector('.token-rows .token').innerText === '0'")
    assert "show=ids" in visit.page.url


def test_tokens_fit_a_phone(visit_of: Any) -> None:
    visit = visit_of(phone=True, color_scheme="dark")
    opened(visit, "told.0", of="job%2Ftold")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = "[...document.querySelectorAll('.token-row')].filter((row) => row.scrollWidth > row.clientWidth).length"
    assert visit.page.evaluate(wide) == 0
    visit.check_accessible()
    visit.picture("tokens-phone")
