"""Consume: datasets made, compared, read back and deleted in the page; and what a trainer would get."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet
import pytest
from tests.dashboard.house import House
from tests.dashboard.tasks import every, fill_tasks, name
from tests.dashboard.visit import Visit

TRAINED = "trainable AND split = 'train' AND NOT side"
PATIENCE = 60_000
"""Milliseconds for the first preview: a worker process starts."""


@pytest.fixture(autouse=True)
def filled(house: House) -> None:
    fill_tasks(house)


def of_groups(*groups: int) -> list[str]:
    return sorted(name(*one) for one in every() if one[0] in groups)


def frozen(house: House, dataset: str, version: int) -> Any:
    return house.warehouse.datasets.read(dataset, version)


def facts(visit: Visit, lineage: str) -> str:
    return str(visit.page.locator(f"[data-lineage='{lineage}']").inner_text())


def test_a_dataset_of_the_current_filter_is_made_and_reads_back_equal(visit: Visit, house: House) -> None:
    visit.go("#/curate?reward_min=0.5")
    visit.page.get_by_role("link", name="Make a dataset of these").click()
    visit.until("() => location.hash === '#/consume/new?reward_min=0.5'")
    wanted = house.get("/steps", reward_min=0.5, count=True)
    count = visit.page.locator("[data-figure=count]")
    count.wait_for()
    assert count.inner_text() == str(wanted["count"]["count"]) == str(len(wanted["items"]))
    visit.page.get_by_label("Name", exact=True).fill("good")
    visit.page.get_by_label("Note").fill("what was solved")
    visit.check_accessible()
    visit.picture("consume-new")
    visit.page.get_by_role("button", name="Make the dataset").click()
    visit.until("() => location.hash === '#/consume/dataset/good%401'")
    visit.page.get_by_text("How it is read").wait_for()
    read = frozen(house, "good", 1)
    assert sorted(read["step_id"].to_pylist()) == sorted(step["step_id"] for step in wanted["items"])
    assert visit.figure("Steps") == str(read.num_rows)
    assert visit.figure("Trajectories") == str(len(set(read["trajectory_id"].to_pylist())))
    [row] = house.get("/datasets")["items"]
    assert (row["note"], row["pinned"], visit.figure("Commit")) == ("what was solved", False, str(row["at_commit"]))
    assert facts(visit, "models").split() == sorted({step["model"] for step in wanted["items"]})
    for code in ("reader", "table", "shell"):
        assert visit.page.locator(f"[data-code={code}]").inner_text() == house.get("/datasets/good")["code"][code]
    visit.check_accessible()
    visit.picture("consume-dataset")


def test_what_selects_nothing_and_a_name_that_is_none_are_refused_in_words(visit: Visit, house: House) -> None:
    visit.allowed.append("422")
    visit.go("#/consume/new")
    visit.page.get_by_text("Choose which steps first").wait_for()
    assert visit.page.get_by_role("button", name="Make the dataset").is_disabled()
    visit.page.get_by_role("button", name="what trains").click()
    visit.until("() => location.hash.includes('trainable=true') && location.hash.includes('split=train')")
    visit.until("() => !document.querySelector('.making button').disabled")
    visit.page.get_by_label("Name", exact=True).fill("a@b")
    visit.page.get_by_role("button", name="Make the dataset").click()
    assert "without '@'" in visit.page.get_by_role("alert").inner_text()
    assert house.get("/datasets")["items"] == []


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_download_is_the_dataset(visit: Visit, house: House, form: str, tmp_path: Path) -> None:
    house.warehouse.datasets.create("some", "group_id = 'task-0'")
    visit.go("#/consume/dataset/some")
    with visit.page.expect_download() as coming:
        visit.page.get_by_role(
            "button", name={"parquet": "Download Parquet", "jsonl": "Download JSON lines"}[form]
        ).click()
    coming.value.save_as(tmp_path / "file")
    assert coming.value.suggested_filename == f"some-v1.{form}"
    if form == "parquet":
        ids = pyarrow.parquet.read_table(tmp_path / "file")["step_id"].to_pylist()
    else:
        ids = [orjson.loads(line)["step_id"] for line in (tmp_path / "file").read_bytes().splitlines()]
    assert ids == frozen(house, "some", 1)["step_id"].to_pylist() and sorted(ids) == of_groups(0)


def test_two_versions_are_compared(visit: Visit, house: House) -> None:
    house.warehouse.datasets.create("math", "group_id IN ('task-0', 'task-1')")
    house.put("/feedback", {"trajectory_id": name(1, 0), "reward": 0.25, "name": "tests"})
    house.commit()
    house.warehouse.datasets.create("math", "group_id IN ('task-1', 'task-2')")
    visit.go("#/consume")
    row = visit.page.locator("table[aria-label=Datasets] tbody tr")
    assert "2 versions" in visit.page.locator("[data-figure=datasets]").inner_text()
    visit.check_accessible()
    row.click()
    visit.page.get_by_role("link", name="Compare with version 1").click()
    visit.until("() => location.hash === '#/consume/compare/math?a=1&b=2'")
    visit.page.get_by_text("Version 2 was selected by").wait_for()
    figures = {label: visit.figure(label) for label in ("Added", "Removed", "Changed")}
    changed = sorted(name(*one) for one in every() if one[:2] == (1, 0))
    assert figures == {"Added": str(len(of_groups(2))), "Removed": str(len(of_groups(0))), "Changed": str(len(changed))}
    visit.check_accessible()
    visit.picture("consume-compare")
    visit.page.locator("a.stat", has_text="Changed").click()
    visit.until("() => location.hash.includes('change=changed')")
    table = visit.page.locator("table[aria-label='What changed'] tbody tr")
    visit.until(
        "(many) => document.querySelectorAll(\"table[aria-label='What changed'] tbody tr\").length === many",
        len(changed),
    )
    assert sorted(text.split("\t")[1].strip() for text in table.all_inner_texts()) == changed
    assert "trajectory reward +1 → +0.25" in table.first.inner_text()
    visit.page.get_by_label("to version").select_option("1")
    visit.page.get_by_text("No step was changed.").wait_for()


def test_a_version_is_deleted_after_asking_and_a_pinned_one_says_so(visit: Visit, house: House) -> None:
    house.warehouse.datasets.create("math", "group_id = 'task-0'")
    house.warehouse.datasets.create("math", "group_id = 'task-1'", pin=True)
    visit.go("#/consume/dataset/math")
    visit.page.get_by_role("button", name="Delete").click()
    dialog = visit.page.get_by_role("dialog")
    assert "Delete math@2?" in dialog.inner_text() and "It is pinned." in dialog.inner_text()
    dialog.get_by_role("button", name="Cancel").click()
    assert len(house.get("/datasets")["items"]) == 2
    visit.page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    visit.page.get_by_text("1 (newest)").wait_for(state="attached")
    assert [row["version"] for row in house.get("/datasets")["items"]] == [1]


def preview(visit: Visit, place: str) -> None:
    visit.go(place)
    visit.page.locator(".stat", has_text="Optimizer steps").wait_for(timeout=PATIENCE)


def test_the_preview_says_what_a_trainer_gets_and_what_is_left_out_and_why(visit: Visit, house: House) -> None:
    house.warehouse.datasets.create("all", "true")
    preview(visit, "#/consume/preview?dataset=all%401&max_tokens=24&ranks=2")
    asked = {"dataset": "all@1", "max_tokens": 24, "ranks": 2}
    plan = house.http.post("/api/v1/batches/preview", json=asked).json()
    totals = plan["totals"]
    lost = sum(plan["left_out"].values()) + sum(plan["skipped"].values())
    unended = sum(one[:2] == (2, 2) for one in every())
    assert (plan["selected"], lost) == (len(every()), unended)
    assert [
        visit.figure(label)
        for label in ("Selected", "Train", "Left out", "Optimizer steps", "Loss terms", "Tokens", "Packs")
    ] == [
        str(value)
        for value in (
            plan["selected"],
            plan["trained"],
            lost,
            plan["optimizer_steps"],
            totals["terms"],
            totals["tokens"],
            totals["packs"],
        )
    ]
    assert totals["terms"] == 2 * plan["trained"]
    planned, read = plan["reports"][0]["tokens"], plan["first"]["report"]["tokens"]
    assert read < planned  # prompts that differ have a common beginning, which only their tokens tell
    note = visit.page.locator("[data-note=bounds]").inner_text()
    assert f"{read} tokens, where at most {planned} were planned" in note
    reasons = visit.page.get_by_role("list", name="Left out by reason")
    for reason, count in plan["left_out"].items():
        assert str(count) in reasons.locator("li", has_text=reason).locator(".count").inner_text()
    first = plan["first"]
    ranks = visit.page.get_by_role("list", name="Packs by rank").locator("li .count").all_inner_texts()
    assert ranks == [str(tokens) for tokens in first["tokens_by_rank"]]
    assert visit.page.locator("[data-figure=ratio]").inner_text() == f"{first['operations']['ratio']:.4g}×"
    packs = visit.page.get_by_role("list", name="Packs by rank").get_by_role("button")
    packs.last.click()
    pack = first["packs"][-1]
    steps = visit.page.locator("[aria-label='Steps of the pack'] tbody tr")
    assert [row.split("\t")[0].strip() for row in steps.all_inner_texts()] == [
        step["step_id"] for step in pack["named"]
    ]
    assert visit.page.locator("pre[data-code=reader]").inner_text().strip() == plan["code"].strip()
    visit.check_accessible()
    visit.picture("consume-preview")


def test_the_settings_of_a_preview_are_its_address(visit: Visit, house: House) -> None:
    visit.go("#/consume/preview")
    visit.page.get_by_text("Choose a dataset, or write a condition").wait_for()
    assert visit.page.get_by_role("textbox", name="Condition").input_value() == TRAINED
    visit.page.get_by_role("textbox", name="Condition").fill("group_id = 'task-1'")
    visit.page.get_by_label("Merge").select_option("trajectory")
    visit.page.get_by_label("For the trainer").select_option("verl")
    visit.page.get_by_label("Tokens per pack").fill("4096")
    visit.page.get_by_role("button", name="Preview", exact=True).click()
    visit.page.locator(".stat", has_text="Optimizer steps").wait_for(timeout=PATIENCE)
    for part in ("where=group_id+%3D+%27task-1%27", "merge=trajectory", "adapter=verl", "max_tokens=4096"):
        assert part in visit.page.url
    assert visit.figure("Selected") == str(len(of_groups(1)))
    body = {"where": "group_id = 'task-1'", "merge": "trajectory", "adapter": "verl", "max_tokens": 4096}
    adapter = house.http.post("/api/v1/batches/preview", json=body).json()["adapter"]
    shown = visit.page.locator("[aria-label=Fields] tbody tr").all_inner_texts()
    form = adapter["fields"]["tensors"]["responses"]
    assert ["tensors.responses", form["dtype"], f"({', '.join(map(str, form['shape']))})"] in [
        [part.strip() for part in row.split("\t")] for row in shown
    ]
    assert "1 group has one reward only" in visit.page.locator("main").inner_text()
    visit.page.reload()
    visit.page.locator(".stat", has_text="Optimizer steps").wait_for(timeout=PATIENCE)
    assert visit.page.get_by_label("Merge").input_value() == "trajectory"


def test_a_preview_that_cannot_be_made_says_why(visit: Visit) -> None:
    visit.allowed.append("422")
    visit.go("#/consume/preview?where=group_id%20%3D%20'nobody'")
    alert = visit.page.get_by_role("alert")
    alert.wait_for(timeout=PATIENCE)
    assert "nobody" in alert.inner_text()


def test_on_a_phone_and_in_the_dark(visit_of: Callable[..., Visit], house: House) -> None:
    house.warehouse.datasets.create("math", TRAINED)
    for settings in ({"phone": True}, {"color_scheme": "dark"}):
        visit = visit_of(**settings)
        for place in ("#/consume", "#/consume/new?trainable=true", "#/consume/dataset/math"):
            visit.go(place)
            visit.until("() => !document.querySelector('main .wait')")
            visit.check_accessible()
            assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        visit.picture(f"consume-{next(iter(settings))}")
