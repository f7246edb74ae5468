"""Curate, one step: judged by hand and by keys, corrected, and whatever it says shown inert."""

from __future__ import annotations

from tests.dashboard.curating import ROWS, history, rows, said, toast
from tests.dashboard.filled import HOSTILE, hostile
from tests.dashboard.house import House
from tests.dashboard.tasks import every, name
from tests.dashboard.visit import Visit


def test_two_tags_stand_side_by_side_and_labels_replace_each_other(visit: Visit, house: House) -> None:
    step = name(0, 0, 0)
    visit.go(f"#/curate/step/{step.replace('/', '%2F')}")
    for label, value in (("Tag", "one"), ("Tag", "two"), ("Label", "good"), ("Label", "bad")):
        visit.page.get_by_label(label, exact=True).fill(value)
        visit.page.get_by_label(label, exact=True).press("Enter")
        toast(visit, f"“{value}”")
        house.commit()
    assert house.get("/steps/" + step.replace("/", "%2F"))["labels"] == ["bad", "one", "two"]


def test_a_better_answer_is_written_from_the_one_that_was_given(visit: Visit, house: House) -> None:
    step = name(0, 1, 1)
    visit.go(f"#/curate/step/{step.replace('/', '%2F')}")
    visit.page.get_by_text("Judge it").wait_for()
    visit.page.keyboard.press("e")
    visit.until("() => location.hash.endsWith('edit=1')")
    field = visit.page.get_by_label("A better answer")
    assert field.input_value() == "Answer 1, turn 1."
    keep = visit.page.get_by_role("button", name="Keep as the better answer")
    assert keep.is_disabled() and "Its 1 tool call stays" in visit.page.locator("form.correction").inner_text()
    field.fill("Answer 1, turn 2, and why.")
    visit.check_accessible()
    visit.picture("curate-correction")
    field.press("Control+Enter")
    toast(visit, "The better answer is kept")
    house.commit()
    [event] = house.get("/steps/" + step.replace("/", "%2F"))["feedback"]
    text, call = event["payload"]["correction"]["content"]
    assert (event["kind"], text) == ("correction", {"type": "text", "text": "Answer 1, turn 2, and why."})
    assert (call["name"], call["arguments"]) == ("run_python", '{"code": "print(3)"}')
    visit.page.locator(".said", has_text="Answer 1, turn 2, and why.").wait_for()
    visit.page.get_by_role("button", name="Undo: a better answer").click()
    toast(visit, "Undone: a better answer")
    assert said(house, step) == [] and history(house, step) == ["correction", "undo"]


def test_one_step_by_keys(visit: Visit, house: House) -> None:
    step = name(1, 0, 0)
    visit.go(f"#/curate/step/{step.replace('/', '%2F')}?group_id=task-1")
    visit.page.get_by_text("Judge it").wait_for()
    assert "Find why the loop never ends." in visit.page.locator(".conversation").inner_text()
    assert "Answer 0, turn 0." in visit.page.locator(".answer").inner_text()
    visit.page.keyboard.press("4")
    toast(visit, "Rated 4 of 5")
    house.commit()
    visit.page.locator(".said", has_text="rating: +4 of 5").wait_for()
    visit.page.keyboard.press("t")
    toast(visit, "Kept out of training")
    house.commit()
    visit.page.get_by_role("button", name="Let it train again").wait_for()
    visit.page.keyboard.press("l")
    visit.page.keyboard.type("fine")
    visit.page.keyboard.press("Enter")
    toast(visit, "Labelled “fine”")
    assert said(house, step) == [
        ("label", "label", "curator", None, "fine"),
        ("rating", "rating", "curator", 4.0, None),
        ("trainable", "trainable", "curator", 0.0, None),
    ]
    visit.page.locator("h1").click()
    visit.page.keyboard.press("Escape")
    visit.until("() => location.hash === '#/curate?group_id=task-1'")


def test_a_hostile_step_is_inert(visit: Visit, house: House) -> None:
    hostile(house)
    visit.go("#/curate")
    rows(visit, len(every()) + 1)
    visit.page.locator(ROWS).first.click()
    visit.page.get_by_text("Judge it").wait_for()
    assert "<script>window.hit=1</script>" in visit.page.locator(".answer").inner_text()
    assert visit.page.evaluate("() => window.hit") is None and visit.page.locator("main script, main img").count() == 0
    assert "\u202e" in HOSTILE and "\u202e" not in visit.page.locator("main").inner_text()
