"""A running `stepwell up` with steps in it, and a browser that is signed in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
from benchmarks.pages._crowd import crowd

CHROMIUM = os.environ.get("STEPWELL_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server"]
PATIENCE = 120_000
"""Milliseconds."""


class Run:
    """Close it to stop everything."""

    def __init__(self, folder: Path, seconds: float, *, apart: bool = False) -> None:
        """`seconds`: how long what goes on all the time is looked at. `apart`: see `_cores`."""
        self.seconds = seconds
        self._ours, self._browsers = _cores(apart)
        self._folder, self._stack = folder, ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(_only_on(self._ours))
            self.url = stack.enter_context(_stack(self._folder))
            self.token = (self._folder / "home" / "token").read_text().strip()
            headers = {"authorization": f"Bearer {self.token}"}
            api = httpx2.Client(base_url=f"{self.url}/api/v1", headers=headers, trust_env=False, timeout=300)
            self.api = stack.enter_context(api)
            with _only_on(self._browsers):  # and so are the processes that are started here
                self._browser = stack.enter_context(_browser())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def send(self, path: str, body: Any) -> None:
        """JSON, or an Arrow stream as bytes; all of it accepted."""
        arrow = {"content-type": "application/vnd.apache.arrow.stream"}
        told = {"content": body, "headers": arrow} if isinstance(body, bytes) else {"json": body}
        while (answer := self.api.post(path, **told)).status_code == 503:  # the spool is full: ingest is behind
            time.sleep(float(answer.headers["retry-after"]))
        refused = [item for item in answer.json().get("items", ()) if item["status"] != "accepted"]
        assert answer.is_success and not refused, refused or answer.text

    def flush(self) -> None:
        """Wait until all that was sent can be read."""
        while self.api.post("/flush", json={"timeout": 60}).status_code == 504:
            pass

    def fill(self, steps: int) -> None:
        """So many steps of trajectories of 20 turns, in groups of 8, ended and rewarded."""
        for path, body in crowd(steps):
            self.send(path, body)
        self.flush()

    @contextmanager
    def page(self) -> Iterator[Any]:
        """A page of Playwright's, at the overview."""
        context = self._browser.new_context(viewport={"width": 1280, "height": 900})
        try:
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(f"{self.url}/#token={self.token}")
            page.locator("main h1:not([aria-busy])").first.wait_for()
            yield page
        finally:
            context.close()


def _cores(apart: bool) -> tuple[set[int], set[int]]:
    """For everything else, and for the browser: all for both, or (`apart`) the last one for the browser alone, as if it were elsewhere."""
    if not apart:
        return set(), set()
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("--apart needs Linux, and two cores")
    *ours, last = sorted(os.sched_getaffinity(0))
    return set(ours), {last}


@contextmanager
def _only_on(cores: set[int]) -> Iterator[None]:
    """This thread, and the processes that it starts, run on these cores only; on any, where none is named."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def _stack(folder: Path) -> Iterator[str]:
    """Where the gateway of a `stepwell up` is, which ends with the block."""
    with ExitStack() as stack:
        ports = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(3)]
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    names = ("STEPWELL_GATEWAY__PORT", "STEPWELL_PROXY__PORT", "STEPWELL_PROXY__RUN_PORT")
    environment |= {"STEPWELL_HOME": str(folder / "home"), "STEPWELL_DATA": str(folder / "data")}
    environment |= dict(zip(names, map(str, ports), strict=True))
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-P", "-m", "stepwell.cli", "up"]
        with subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith("Ctrl-C"):
                        break
                yield f"http://127.0.0.1:{ports[0]}"
            finally:
                process.terminate()
