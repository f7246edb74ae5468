"""Answers that come late, or in another order than they were asked for; places that were left meanwhile."""

from __future__ import annotations

import threading
from typing import Any

from tests.dashboard.curating import ROWS, rows, said
from tests.dashboard.house import TOKEN, House
from tests.dashboard.tasks import every, name
from tests.dashboard.visit import Visit


class Held:
    """Requests that are held until they are let go."""

    def __init__(self, visit: Visit, pattern: str) -> None:
        self.routes: list[Any] = []
        self._visit, self._pattern = visit, pattern
        visit.page.route(pattern, lambda route: self.routes.append(route))

    def wait(self, many: int = 1) -> None:
        for _ in range(300):
            if len(self.routes) >= many:
                return
            self._visit.page.wait_for_timeout(50)
        raise AssertionError(f"{len(self.routes)} of {many} requests came")

    def let_go(self) -> None:
        self._visit.page.unroute(self._pattern)
        for route in self.routes:
            route.continue_()


POLLED = """async () => {
    const { html, render } = await import("/assets/js/lib/html.js");
    const { useApi } = await import("/assets/js/lib/api.js");
    const Tried = () => html`<p id="tried">${useApi("/version", { of: "poll" }, { every: 100 }).data?.version ?? "nothing yet"}</p>`;
    render(html`<${Tried} />`, document.body.appendChild(document.createElement("div")));
}"""


def test_an_answer_that_takes_longer_than_it_is_asked_for_again_comes_all_the_same(visit: Visit, house: House) -> None:
    def late(route: Any) -> None:
        asked.append(route)
        threading.Event().wait(0.4)
        route.continue_()

    asked: list[Any] = []
    visit.go("#/nowhere")
    visit.page.route("**/version?of=poll", late)
    visit.page.evaluate(POLLED)
    visit.until("document.getElementById('tried').textContent !== 'nothing yet'")
    visit.page.evaluate("document.getElementById('tried').parentNode.remove()")


def test_a_late_refusal_of_the_token_before_does_not_sign_out_the_one_of_now(visit: Visit, house: House) -> None:
    visit.allowed.append("401")
    old, _ = house.tokens.create(["read"])
    visit.go("#/nowhere", token=old)
    held = Held(visit, "**/version?of=old")
    visit.page.evaluate(
        """async () => {
            const { get } = await import("/assets/js/lib/api.js");
            window.asked = get("/version", { of: "old" }).catch((error) => error.status);
        }"""
    )
    held.wait()
    visit.page.evaluate("(token) => { location.hash = `token=${token}`; }", TOKEN)
    visit.page.locator("main h1", has_text="Overview").wait_for()
    held.routes[0].fulfill(status=401, content_type="application/problem+json", body='{"detail": "no such token"}')
    assert visit.page.evaluate("window.asked") == 401
    assert visit.page.locator("nav[aria-label=Views]").count() == 1
    held.routes.clear()


def test_with_another_token_everything_is_asked_anew(visit: Visit, house: House) -> None:
    visit.allowed.append("403")
    token, _ = house.tokens.create(["ingest"])
    visit.go("#/overview", token=token)
    visit.page.get_by_text("this token has not the scope read").first.wait_for()
    visit.page.evaluate("(token) => { location.hash = `token=${token}`; }", TOKEN)
    assert visit.figure("Steps") == str(len(every()))
    visit.page.get_by_text("this token has not the scope read").first.wait_for(state="detached")


def gone_before_the_answer(visit: Visit, held: Held) -> None:
    """Go to another view while a request is under way, which is answered then."""
    held.wait()
    visit.page.get_by_role("link", name="System").click()
    visit.page.locator("h1", has_text="System").wait_for()
    held.let_go()


def test_whoever_left_is_not_called_back_by_an_answer(visit: Visit, house: House) -> None:
    step = name(0, 0, 0)
    visit.go(f"#/curate/step/{step.replace('/', '%2F')}?edit=1")
    visit.page.get_by_label("A better answer").fill("Better.")
    held = Held(visit, "**/api/v1/feedback")
    visit.page.get_by_role("button", name="Keep as the better answer").click()
    gone_before_the_answer(visit, held)
    visit.page.locator(".toast", has_text="The better answer is kept").wait_for()
    assert visit.page.evaluate("location.hash") == "#/system"
    assert [one[0] for one in said(house, step)] == ["correction"]


def test_whoever_left_the_form_of_a_dataset_stays_where_they_went(visit: Visit) -> None:
    visit.go("#/consume/new?group_id=task-0")
    visit.page.locator("[data-figure=count]").wait_for()
    visit.page.get_by_label("Name", exact=True).fill("left")
    held = Held(visit, "**/api/v1/datasets")
    visit.page.get_by_role("button", name="Make the dataset").click()
    gone_before_the_answer(visit, held)
    visit.page.locator(".toast", has_text="Made left@1").wait_for()
    assert visit.page.evaluate("location.hash") == "#/system"


def test_a_dataset_is_made_only_of_what_was_counted(visit: Visit) -> None:
    visit.go("#/consume/new?group_id=task-0")
    visit.page.locator("[data-figure=count]").wait_for()
    make = visit.page.get_by_role("button", name="Make the dataset")
    assert make.is_enabled()
    held = Held(visit, "**/steps?*count=true*")
    visit.page.evaluate("location.hash = '#/consume/new?group_id=task-1'")
    held.wait(2)
    assert make.is_disabled()
    held.let_go()
    visit.until(
        "![...document.querySelectorAll('button')].find((one) => one.textContent === 'Make the dataset').disabled"
    )


def test_a_list_that_is_refused_shows_none_of_the_steps_before(visit: Visit) -> None:
    visit.allowed.append("422")
    visit.go("#/curate")
    rows(visit, len(every()))
    visit.page.evaluate("location.hash = '#/curate?where=no_such_column%20%3D%201'")
    visit.page.get_by_role("alert").first.wait_for()
    assert visit.page.locator(ROWS).count() == 0
    visit.page.evaluate("location.hash = '#/curate'")
    rows(visit, len(every()))
    assert visit.page.get_by_role("alert").count() == 0


def asked_about(visit: Visit, step: str) -> None:
    visit.until("(step) => document.querySelector('.judged header .mono')?.textContent === step", step)


def waiting(house: House) -> list[str]:
    page = house.get("/annotations/queue", author="curator", name="quality", group_id="task-1")
    return [step["step_id"] for step in page["items"]]


def test_nothing_is_judged_that_is_not_seen_yet(visit: Visit, house: House) -> None:
    first, *_ = waiting(house)
    held = Held(visit, f"**/steps/{first.replace('/', '%2F')}")
    visit.go("#/curate/queue?group_id=task-1")
    held.wait()
    visit.page.keyboard.press("5")
    held.let_go()
    asked_about(visit, first)
    assert visit.page.locator("[data-figure=last]").count() == 0
    assert said(house, first) == []


def test_a_draft_stays_with_the_step_that_it_was_written_for(visit: Visit, house: House) -> None:
    second = waiting(house)[1]
    visit.go("#/curate/queue?group_id=task-1&edit=1")
    visit.page.get_by_label("A better answer").fill("Better only for the first.")
    visit.page.get_by_role("button", name="Skip").click()
    asked_about(visit, second)
    assert visit.page.get_by_label("A better answer").count() == 0
    visit.page.keyboard.press("e")
    assert visit.page.get_by_label("A better answer").input_value().startswith("Answer")


def test_the_last_answer_is_undone_once(visit: Visit, house: House) -> None:
    first, second, *_ = waiting(house)
    visit.go("#/curate/queue?group_id=task-1")
    asked_about(visit, first)
    visit.page.keyboard.press("5")
    asked_about(visit, second)
    held = Held(visit, "**/api/v1/feedback")
    visit.page.keyboard.press("u")
    visit.page.keyboard.press("u")
    held.wait()
    held.let_go()
    asked_about(visit, first)
    house.commit()
    sql = f"SELECT kind FROM events WHERE target_id = '{first}' ORDER BY \"commit\", sequence"
    assert house.warehouse.query(sql)["kind"].to_pylist() == ["rating", "undo"]
    assert len(held.routes) == 1


def test_a_key_that_is_held_down_answers_once(visit: Visit, house: House) -> None:
    first, second, *_ = waiting(house)
    visit.go("#/curate/queue?group_id=task-1")
    asked_about(visit, first)
    visit.page.keyboard.down("5")
    asked_about(visit, second)
    visit.page.keyboard.down("5")  # as the browser repeats it
    visit.page.keyboard.up("5")
    visit.page.keyboard.press("u")
    asked_about(visit, first)
    assert said(house, second) == []


def test_what_is_committed_while_the_tail_opens_is_listed(visit: Visit, house: House) -> None:
    visit.go("#/nowhere")
    held = Held(visit, "**/api/v1/stream*")
    visit.page.evaluate("location.hash = '#/collect'")
    held.wait()
    visit.page.wait_for_timeout(300)  # time for whatever does not wait for the stream
    house.put("/steps", {"step_id": "between", "prompt_ids": [1], "response_ids": [2]})
    house.commit()
    held.let_go()
    visit.page.get_by_role("cell", name="between", exact=True).wait_for()


def test_the_tail_keeps_no_more_than_it_shows(visit: Visit) -> None:
    visit.go("#/nowhere")
    kept = visit.page.evaluate(
        """async () => {
            const { Feed } = await import("/assets/js/views/collect/feed.js");
            const feed = new Feed(() => {});
            feed.soon = () => {}; // a page that is not seen draws nothing
            for (let at = 0; at < 200_000; at++) feed.take("step", { step_id: `s${at}` });
            const sizes = Object.values(feed).map((one) => one?.length ?? one?.size ?? 0);
            const rate = feed.rate();
            feed.flush();
            return [Math.max(...sizes), rate, feed.rows.length, feed.rows[0].id];
        }"""
    )
    assert kept == [500, 20_000, 500, "s199999"]


def test_a_view_that_failed_is_tried_again_at_another_place(visit: Visit) -> None:
    visit.allowed.append(".")
    visit.page.route("**/trajectories/broken", lambda route: route.fulfill(json={"tree": 7}))
    visit.go("#/trajectories/broken")
    visit.page.get_by_text("This view failed.").wait_for()
    visit.page.evaluate("location.hash = '#/trajectories'")
    visit.page.locator(".lists tbody tr").first.wait_for()


def test_a_part_of_collect_has_its_own_search(visit: Visit) -> None:
    visit.go("#/collect?q=qwen&show=step")
    visit.page.get_by_role("button", name="Quarantine").click()
    visit.until("location.hash === '#/collect/quarantine'")
