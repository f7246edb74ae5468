"""The short way from mitmproxy's hooks to ours."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from mitmproxy import master, options
from mitmproxy.proxy import server_hooks

from stepwell.proxy._master import Dispatcher, eager_tasks


class Notes:
    """An addon that fails, then one that must be heard all the same."""

    def __init__(self, name: str, heard: list[str], failure: Exception | None = None) -> None:
        self.name = name
        self.heard = heard
        self.failure = failure

    def client_connected(self, client: object) -> None:
        self.heard.append(self.name)
        if self.failure is not None:
            raise self.failure

    async def client_disconnected(self, client: object) -> None:
        await asyncio.sleep(0)
        self.heard.append(f"{self.name} later")


async def test_a_failing_hook_stops_nobody_and_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    owner = master.Master(options.Options())
    dispatcher = Dispatcher(owner)
    heard: list[str] = []
    dispatcher.add(Notes("first", heard, ValueError("SECRET")), Notes("second", heard))
    event: Any = server_hooks.ClientConnectedHook(object())  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        await dispatcher.handle_lifecycle(event)
    assert heard == ["first", "second"]
    assert "client_connected failed: ValueError" in caplog.text
    assert "SECRET" not in caplog.text
    dispatcher.add(Notes("third", heard))  # an addon that comes later is heard too
    await dispatcher.handle_lifecycle(event)
    assert heard[2:] == ["first", "second", "third"]
    gone: Any = server_hooks.ClientDisconnectedHook(object())  # type: ignore[arg-type]
    await dispatcher.handle_lifecycle(gone)
    assert heard[5:] == ["first later", "second later", "third later"]
    await owner.done()


def test_tasks_start_at_once_on_uvloop_too() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> bool:
        asyncio.get_running_loop().set_task_factory(eager_tasks)
        done: list[int] = []

        async def part() -> None:
            done.append(1)

        task = asyncio.create_task(part(), name="part")
        started = bool(done)
        await task
        return started

    for new_loop in (uvloop.new_event_loop, asyncio.new_event_loop):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            assert runner.run(main())
