"""A browser on a page of a real gateway. What the page must never do fails every test: errors on its console, requests to elsewhere."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.house import TOKEN, House, open_house
from tests.dashboard.visit import Visit

CHROMIUM = os.environ.get("STEPWELL_TEST_CHROMIUM") or next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
"""Where a browser is: the setting, else Debian's. Playwright's own download is not reachable everywhere."""
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server"]
"""For containers, where tests run as root; and no way out of this machine."""
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for a module's tests: while Playwright is up, an event loop runs in this thread, in which no other test's can."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it (apt install chromium), or set STEPWELL_TEST_CHROMIUM to where one is")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
        yield opened


@pytest.fixture
def visit_of(browser: Any, house: House, request: pytest.FixtureRequest) -> Iterator[Callable[..., Visit]]:
    """Visits with other screens: `visit_of(phone=True)`, `visit_of(color_scheme="dark")`."""
    made: list[tuple[Any, Visit]] = []

    def make(*, phone: bool = False, **more: Any) -> Visit:
        context = browser.new_context(viewport=PHONE if phone else WIDE, reduced_motion="reduce", **more)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        visit = Visit(context.new_page(), house.url, TOKEN, _slug(request.node.name))
        made.append((context, visit))
        return visit

    yield make
    for context, visit in made:
        context.close()
        visit.check()


@pytest.fixture
def visit(visit_of: Callable[..., Visit]) -> Visit:
    """A visit on a screen of 1280 by 900."""
    return visit_of()


def _slug(name: str) -> str:
    return re.sub(r"\W+", "-", name.removeprefix("test_")).strip("-")
