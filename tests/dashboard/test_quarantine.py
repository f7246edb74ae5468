"""Quarantine: what could not be read is listed with its reason and its bytes, and can be parsed again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.dashboard.filled import HOSTILE
from tests.dashboard.house import House
from tests.dashboard.visit import Visit

from stepwell.exchange import Unparseable

REQUEST = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"hello {HOSTILE}"}]})
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    }
)


def exchange(id_: str, **more: Any) -> dict[str, Any]:
    return {
        "exchange_id": id_,
        "url": "https://api.openai.com/v1/chat/completions",
        "request_headers": [["content-type", "application/json"]],
        "request_body": REQUEST,
        "status": 200,
        "response_headers": [["content-type", "application/json"]],
        "response_body": ANSWER,
        "started_ns": 1_760_000_000_000_000_000,
        "finished_ns": 1_760_000_001_000_000_000,
        "trajectory_id": f"of {id_}",
        **more,
    }


def test_what_cannot_be_read_says_why_and_stays(visit: Visit, house: House) -> None:
    house.put("/exchanges", exchange("broken/1", response_body="{not json"), exchange("fine"))
    house.commit()
    visit.go("#/collect/quarantine")
    row = visit.page.get_by_role("row", name="broken/1")
    row.wait_for()
    [kept] = house.get("/quarantine")["items"]
    assert kept["reason"] in row.inner_text() and "openai.chat" in row.inner_text()
    assert visit.page.get_by_text("fine").count() == 0
    visit.page.get_by_role("searchbox").fill("no such words")
    visit.page.get_by_text("No reason has these words.").wait_for()
    visit.page.get_by_role("searchbox").fill("")
    row.click()
    dialog = visit.page.get_by_role("dialog", name="Quarantined call")
    dialog.get_by_text("{not json").wait_for()
    assert visit.page.evaluate("location.hash") == "#/collect/quarantine/broken%2F1"
    assert "<script>window.hit=1</script>" in dialog.inner_text() and dialog.locator("script, img").count() == 0
    visit.check_accessible()
    visit.picture("collect-quarantine")
    dialog.get_by_role("button", name="Parse again").click()
    visit.page.get_by_role("dialog", name="Parse it again?").get_by_role("button", name="Parse again").click()
    dialog.get_by_text("This version cannot read it either.").wait_for()
    visit.page.keyboard.press("Escape")
    visit.until("location.hash === '#/collect/quarantine'")
    house.commit()
    assert len(house.get("/quarantine")["items"]) == 1
    assert visit.page.evaluate("window.hit") is None


def test_what_can_be_read_by_now_becomes_its_steps(visit: Visit, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def older(*_: Any, **__: Any) -> Any:
        raise Unparseable("an older version cannot read this")

    house.put("/exchanges", exchange("later"))
    with monkeypatch.context() as patched:
        patched.setattr("stepwell.warehouse._parse.records.parse", older)
        house.commit()
    visit.go("#/collect/quarantine/later")
    dialog = visit.page.get_by_role("dialog", name="Quarantined call")
    dialog.get_by_text("an older version cannot read this").wait_for()
    dialog.get_by_role("button", name="Parse again").click()
    visit.page.get_by_role("dialog", name="Parse it again?").get_by_role("button", name="Parse again").click()
    dialog.get_by_text("It can be read now").wait_for()
    house.commit()
    assert [step["step_id"] for step in house.get("/steps")["items"]] == ["later.0"]
    assert dialog.get_by_role("link").get_attribute("href") == "#/trajectories?step=later.0"
    visit.page.reload()
    visit.page.get_by_text("Nothing is quarantined").wait_for()
    visit.allowed.append("404")


def test_whoever_only_reads_is_told(visit: Visit, house: House) -> None:
    visit.allowed.append("403")
    house.put("/exchanges", exchange("broken", response_body="{not json"))
    house.commit()
    token, _ = house.tokens.create(["read"])
    visit.go("#/collect/quarantine/broken", token=token)
    dialog = visit.page.get_by_role("dialog", name="Quarantined call")
    dialog.get_by_role("button", name="Parse again").click()
    visit.page.get_by_role("dialog", name="Parse it again?").get_by_role("button", name="Parse again").click()
    visit.page.locator(".toast.bad", has_text="has not the scope curate").wait_for()
