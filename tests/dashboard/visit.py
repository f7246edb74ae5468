"""One visit to the dashboard: going to places, reading figures, pictures, and what went wrong in the page."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

AXE = Path(__file__).with_name("axe") / "axe-4.14.1.min.js"
PICTURES = os.environ.get("STEPWELL_TEST_SCREENSHOTS")
"""The folder for pictures; without it none are kept."""
PATIENCE = 15_000
"""Milliseconds for whatever is waited for: two cores may be busy with other tests."""


class Visit:
    """A page, and what is wrong with it so far. `page` is Playwright's, for everything that has no word here."""

    def __init__(self, page: Any, url: str, token: str, name: str) -> None:
        self.page, self.url, self.name = page, url, name
        self._token = token
        self.errors: list[str] = []
        self.away: list[str] = []
        self.allowed: list[str] = []
        """Patterns of errors that a test means to cause."""
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.errors.append(f"{error}"))
        page.on("console", self._console)
        page.on("request", self._request)
        page.route(lambda address: not _is_local(address), lambda route: route.abort())

    def go(self, place: str = "#/overview", *, signed: bool = True, token: str | None = None) -> None:
        """Be at a place of the dashboard, signed in as the address of `stepwell dashboard` does it."""
        if signed:
            self.page.goto(f"{self.url}/#token={token or self._token}")
            self.page.locator("nav[aria-label=Views]").wait_for()
        self.page.goto(f"{self.url}/{place}")
        if signed:
            self.page.locator("main h1:not([aria-busy])").first.wait_for()

    def figure(self, label: str) -> str:
        """The value of the figure with this name, when there is one."""
        tile = self.page.locator(".stat", has=self.page.locator(".label", has_text=re.compile(f"^{re.escape(label)}$")))
        return str(tile.locator(".value", has_text=re.compile("[^–]")).inner_text())

    def until(self, script: str, argument: Any = None, *, patience: int = PATIENCE) -> None:
        """Wait until an expression, or a function of the argument, holds in the page."""
        program = script if script.startswith("(") else f"() => ({script})"  # the page's policy lets no text be run
        self.page.wait_for_function(program, arg=argument, polling=50, timeout=patience)

    def picture(self, name: str = "") -> None:
        """Keep a picture of the whole page, where pictures are wanted."""
        if PICTURES:
            folder = Path(PICTURES)
            folder.mkdir(parents=True, exist_ok=True)
            self.page.evaluate("scrollTo(0, 0)")  # what sticks to the top stays there
            self.page.screenshot(path=folder / f"{name or self.name}.png", full_page=True)

    def check_accessible(self) -> None:
        """No finding of axe that is serious or critical, once nothing is dimmed because something newer is on its way."""
        self.until("!document.querySelector('.stale')")
        self.page.evaluate(AXE.read_text(encoding="utf-8"))  # past the page's own policy, as a browser's tools are
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        grave = [
            f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
            for one in found["violations"]
            if one["impact"] in {"serious", "critical"}
        ]
        assert grave == [], "\n".join(grave)

    def check(self) -> None:
        """What holds for every visit."""
        left = [error for error in self.errors if not any(re.search(pattern, error) for pattern in self.allowed)]
        assert left == [], left
        assert self.away == [], self.away

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _request(self, request: Any) -> None:
        if not _is_local(request.url):
            self.away.append(request.url)


def _is_local(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in {"data", "blob"} or parts.hostname == "127.0.0.1"
