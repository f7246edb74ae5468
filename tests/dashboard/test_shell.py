"""The shell: signing in and out, the address as the state, keys, colours, and what a hostile page could try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.dashboard.house import TOKEN, House, open_house
from tests.dashboard.visit import Visit


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One for all: nothing here changes what it holds."""
    with open_house(tmp_path_factory.mktemp("house")) as opened:
        yield opened


def test_the_token_leaves_the_address_at_once_and_never_reaches_the_gateway(visit: Visit) -> None:
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.page.goto(f"{visit.url}/#token={TOKEN}")
    visit.page.locator("nav[aria-label=Views]").wait_for()
    assert TOKEN not in visit.page.url and TOKEN not in visit.page.content()
    assert asked and not any(TOKEN in url.partition("#")[0] for url in asked)
    visit.page.go_back()
    assert TOKEN not in visit.page.url


def test_a_wrong_token_and_a_right_one_by_the_form(visit: Visit) -> None:
    visit.allowed.append("401")
    visit.go(signed=False)
    field = visit.page.get_by_label("Token")
    field.wait_for()
    assert "stepwell dashboard" in visit.page.locator("form").inner_text()
    visit.check_accessible()
    visit.picture("sign-in")
    field.fill("wrong")
    visit.page.get_by_role("button", name="Sign in").click()
    assert "send the header" in visit.page.get_by_role("alert").inner_text()
    field.fill(TOKEN)
    visit.page.get_by_role("button", name="Sign in").click()
    visit.page.locator("nav[aria-label=Views]").wait_for()
    assert visit.page.evaluate("localStorage.length") == 0


def test_a_second_tab_is_signed_in_by_the_first_and_a_new_browser_is_not(
    visit: Visit, visit_of: Callable[..., Visit]
) -> None:
    visit.go()
    second = visit.page.context.new_page()
    second.goto(f"{visit.url}/#/collect")
    second.locator("nav[aria-label=Views]").wait_for()
    assert second.evaluate("document.title") == "Collect · Stepwell"
    other = visit_of()
    other.go(signed=False)
    other.page.get_by_label("Token").wait_for()


def test_the_address_that_signs_in_works_where_the_page_is_already(visit: Visit) -> None:
    visit.go(signed=False)
    visit.page.get_by_label("Token").wait_for()
    visit.page.evaluate("(token) => { location.hash = `token=${token}`; }", TOKEN)
    visit.page.locator("main h1", has_text="Overview").wait_for()
    assert TOKEN not in visit.page.url


def test_signing_out_is_for_all_tabs(visit: Visit) -> None:
    visit.go()
    second = visit.page.context.new_page()
    second.goto(f"{visit.url}/#/collect")
    second.locator("nav[aria-label=Views]").wait_for()
    visit.page.get_by_role("button", name="Sign out").click()
    second.get_by_label("Token").wait_for()


def test_signing_out_and_a_token_that_is_revoked_come_back_to_the_form(visit: Visit) -> None:
    visit.allowed.append("401")
    visit.go()
    visit.page.get_by_role("button", name="Sign out").click()
    visit.page.get_by_label("Token").wait_for()
    assert visit.page.evaluate("sessionStorage.length") == 0
    visit.page.evaluate("sessionStorage.setItem('stepwell.token', 'revoked')")
    visit.page.reload()
    visit.page.get_by_label("Token").wait_for()


def test_every_view_has_its_key_and_its_address(visit: Visit) -> None:
    visit.go()
    for key, view in (("c", "collect"), ("o", "overview"), ("c", "collect")):
        visit.page.keyboard.press("g")
        visit.page.keyboard.press(key)
        visit.until(f"location.hash === '#/{view}'")
        assert visit.page.locator("nav a[aria-current=page]").inner_text().lower() == view
    visit.page.go_back()
    visit.until("location.hash === '#/overview'")
    assert visit.page.locator("h1").inner_text() == "Overview"
    visit.page.go_forward()
    visit.page.get_by_text("a second").wait_for()
    visit.page.keyboard.press("?")
    keys = visit.page.get_by_role("dialog").inner_text()
    assert "g o" in keys and "Overview" in keys and "pause the live tail" in keys
    visit.check_accessible()
    visit.page.keyboard.press("Escape")
    visit.page.get_by_role("dialog").wait_for(state="detached")


def test_an_address_that_is_nowhere_says_so(visit: Visit) -> None:
    visit.go("#/<img src=x onerror=alert(1)>")
    assert "There is no view" in visit.page.locator("main").inner_text()
    assert visit.page.locator("main img").count() == 0


def test_colours_are_the_systems_or_chosen_and_stay(visit_of: Callable[..., Visit]) -> None:
    visit = visit_of(color_scheme="dark")
    visit.go()
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = visit.page.evaluate(ground)
    switch = visit.page.get_by_role("button", name="Colours")
    switch.click()  # dark
    switch.click()  # light
    assert visit.page.evaluate(ground) != dark
    visit.page.reload()
    visit.page.locator("nav").wait_for()
    assert visit.page.evaluate("document.documentElement.dataset.theme") == "light"
    visit.page.get_by_role("button", name="Colours").click()
    assert visit.page.evaluate(ground) == dark


def test_a_token_without_the_scope_is_told_which_one_is_missing(visit: Visit, house: House) -> None:
    visit.allowed.append("403")
    token, _ = house.tokens.create(["ingest"])
    visit.go(token=token)
    visit.page.get_by_text("this token has not the scope read").first.wait_for()
    assert visit.page.locator("nav").count() == 1  # still signed in


@pytest.mark.parametrize("attempt", ["javascript:window.hit=1", "data:text/html,<script>window.hit=1</script>"])
def test_no_link_can_run_a_script(visit: Visit, attempt: str) -> None:
    visit.go()
    shown: Any = visit.page.evaluate(
        """async (address) => {
            const { html, render } = await import("/assets/js/lib/html.js");
            const box = document.createElement("div");
            render(html`<a href=${address} title=${"<b>"}>${"<script>window.hit=1</script>"}</a>`, box);
            return box.innerHTML;
        }""",
        attempt,
    )
    assert shown.startswith("<a title=") and shown.endswith(">&lt;script&gt;window.hit=1&lt;/script&gt;</a>")
    assert visit.page.evaluate("window.hit") is None
