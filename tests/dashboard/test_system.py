"""System: storage and what pins it, routes, tokens, settings; each figure against what the warehouse and the gateway say."""

from __future__ import annotations

from collections.abc import Callable

from tests.dashboard.filled import HOSTILE
from tests.dashboard.house import TOKEN, House
from tests.dashboard.tasks import every, fill_tasks
from tests.dashboard.visit import Visit


def table(visit: Visit, label: str) -> list[list[str]]:
    rows = visit.page.locator(f"[role=region][aria-label='{label}'] tbody tr")
    rows.first.wait_for()
    return [[part.strip() for part in row.split("\t")] for row in rows.all_inner_texts()]


def test_storage_by_table_and_what_pins_it(visit: Visit, house: House) -> None:
    fill_tasks(house)
    house.warehouse.datasets.create("math", "trainable", pin=True)
    visit.go("#/system")
    shown = {row[0]: row for row in table(visit, "Tables")}
    storage = house.get("/system")["storage"]
    assert shown.keys() == {one["table"] for one in storage["tables"]}
    for one in storage["tables"]:
        assert [shown[one["table"]][at] for at in (2, 4, 5, 6)] == [
            f"{one[name]:,}" for name in ("rows", "fragments", "versions", "version")
        ]
    assert shown["steps"][2] == str(len(every()))
    total = sum(one["bytes"] for one in storage["tables"])
    assert f"{total:,} bytes in {len(storage['tables'])} tables" in visit.page.locator(".stat").first.inner_text()
    assert visit.figure("Pins") == str(sum(len(one["pins"]) for one in storage["tables"])) != "0"
    bars = visit.page.get_by_role("list", name="Bytes by table")
    [steps] = [one["bytes"] for one in storage["tables"] if one["table"] == "steps"]
    assert (
        bars.locator("li", has=visit.page.get_by_text("steps", exact=True)).locator(".count").inner_text()
        == f"{steps:,}"
    )
    software = dict(table(visit, "Software"))
    assert software == house.get("/system")["software"]
    visit.check_accessible()
    visit.picture("system")
    visit.page.locator("[aria-label=Tables] tr", has_text="steps").get_by_role("link", name="math@1").click()
    visit.until("() => location.hash === '#/consume/dataset/math%401'")


def test_tokens_are_shown_by_their_ids_and_never_themselves(visit: Visit, house: House) -> None:
    secret, token = house.tokens.create(["read", "curate"], project="shop", note=f"ann's {HOSTILE}")
    visit.go("#/system/tokens")
    [row] = table(visit, "Tokens")
    assert row[0] == token.id and row[1].split() == ["curate", "read"] and row[2] == "shop"
    assert row[3].startswith("ann's <script>") and row[5:] == ["never", "never"]
    page = visit.page.content()
    assert secret not in page and TOKEN not in page and visit.page.evaluate("() => window.hit") is None
    visit.check_accessible()


def test_tokens_need_the_scope_of_admins(visit: Visit, house: House) -> None:
    visit.allowed.append("403")
    token, _ = house.tokens.create(["read"])
    visit.go("#/system/tokens", token=token)
    assert "admin" in visit.page.get_by_role("alert").inner_text()


def test_settings_in_force_can_be_searched(visit: Visit, house: House) -> None:
    visit.go("#/system/settings")
    shown = dict(table(visit, "Settings"))
    gateway = house.get("/system")["settings"]["gateway"]
    assert shown["gateway.max_batch"] == str(gateway["max_batch"]) and shown["gateway.host"] == gateway["host"]
    assert visit.page.locator("[data-figure=settings]").inner_text() == f"{len(shown)} of {len(shown)}"
    visit.page.get_by_role("searchbox").fill("max_batch")
    visit.until("() => location.hash === '#/system/settings?q=max_batch'")
    assert table(visit, "Settings") == [["gateway.max_batch", str(gateway["max_batch"])]]
    visit.check_accessible()


def test_without_routes_it_is_said_where_they_are_set(visit: Visit) -> None:
    visit.go("#/system/routes")
    assert "[[proxy.routes]]" in visit.page.locator("main .empty").inner_text()


def test_on_a_phone_and_in_the_dark(visit_of: Callable[..., Visit], house: House) -> None:
    fill_tasks(house)
    for settings in ({"phone": True}, {"color_scheme": "dark"}):
        visit = visit_of(**settings)
        visit.go("#/system")
        table(visit, "Tables")
        visit.check_accessible()
        assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        visit.picture(f"system-{next(iter(settings))}")
