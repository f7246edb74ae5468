"""How views look does not depend on which others were gone to before."""

from __future__ import annotations

from typing import Any

from tests.dashboard import rollouts
from tests.dashboard.house import House
from tests.dashboard.visit import Visit

PLACES = {
    "collect": ("#/collect/producers", "tbody tr.sum"),
    "trajectories": ("#/trajectories/job%2Falpha?step=alpha.1", ".message pre"),
    "curate": ("#/curate/step/alpha.1", ".said li"),
    "consume": ("#/consume/new", "[data-figure=apt]"),
    "system": ("#/system", "tbody tr"),
}
"""By view: a place of it, and what is there when it is whole."""
LOOK = """() => Object.fromEntries([...document.querySelectorAll("main *")].map((element) => {
    const style = getComputedStyle(element);
    const place = [element.parentNode.className, element.tagName, element.className].map((one) => one.baseVal ?? one).join(" / ");
    const names = ["display", "padding", "gap", "borderTopWidth", "borderLeftWidth", "backgroundColor", "position"];
    return [place, names.map((name) => style[name]).join(" ")];
}))"""


def test_a_view_looks_the_same_after_all_others(visit: Visit, house: House) -> None:
    rollouts.fill(house)
    alone = {}
    for view in PLACES:
        visit.page.goto("about:blank")
        alone[view] = look(visit, view)
    for view in PLACES:
        look(visit, view, signed=False)
    for view in PLACES:
        assert look(visit, view, signed=False) == alone[view], view


def look(visit: Visit, view: str, *, signed: bool = True) -> Any:
    place, whole = PLACES[view]
    visit.go(place, signed=signed)
    visit.page.locator(f".view-{view} {whole}").first.wait_for()
    return visit.page.evaluate(LOOK)
