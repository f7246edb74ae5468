"""Work of `POST /batches/preview`: a reader's plan, and its first optimizer step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stepwell.gateway._work_batch import adapter_fields, batch_of
from stepwell.gateway._work_chosen import Chosen, check_size

if TYPE_CHECKING:
    from stepwell.reader import BatchReader, Plan, StepReport
    from stepwell.warehouse import Warehouse

__all__ = ["MOST_STEPS", "MOST_TOKENS", "preview"]

MOST_STEPS = 2_000_000
MOST_TOKENS = 4_000_000
"""Of an optimizer step that is read, all its steps in full."""
_SHOWN = 200
"""Optimizer steps whose reports are in the answer."""
_SUMS = ("groups", "steps", "terms", "tokens_naive", "tokens_merged", "tokens", "packs", "empty", "padding")
_SELECTING = ("dataset", "where", "at", "adapter", "made_here")


def preview(warehouse: Warehouse, asked: Mapping[str, Any]) -> dict[str, Any]:
    """
    Raises:
        InvalidRecord: a setting; nothing is left to train on; what a reader refuses.
        Problem: 404 for a dataset that is not there; 422 for too many steps.
    """
    from stepwell.reader import BatchReader

    chosen = Chosen.of(warehouse, asked)
    [found] = warehouse.query(f"SELECT count(*) AS n FROM steps WHERE ({chosen.where}\n)", at=chosen.at).to_pylist()
    check_size(found["n"], MOST_STEPS)
    settings = {name: value for name, value in asked.items() if name not in _SELECTING}
    named = (
        {"dataset": chosen.name, "version": chosen.version} if chosen.name else {"where": chosen.where, "at": chosen.at}
    )
    reader = BatchReader(warehouse, **named, **settings)
    plan = reader.plan()
    return {
        **_planned(plan),
        "code": _code(warehouse.uri, named, asked),
        **_first(warehouse, reader, plan, asked["adapter"]),
    }


def _planned(plan: Plan) -> dict[str, Any]:
    reports = [_report(step) for step in plan.optimizer_steps]
    return {
        "selection": plan.selection,
        "at": plan.at,
        "selected": plan.selected,
        "trained": plan.total("steps"),
        "optimizer_steps": len(plan.optimizer_steps),
        "totals": {
            **{name: plan.total(name) for name in _SUMS},
            "inflation": plan.inflation,
            "makespan_over_bound": plan.makespan_over_bound,
        },
        "reports": reports[:_SHOWN],
        "left_out": dict(plan.left_out),
        "skipped": dict(plan.skipped),
        "drift": dict(plan.drift),
        "policies": list(plan.policies),
        "fingerprints": list(plan.fingerprints),
    }


def _report(step: StepReport) -> dict[str, Any]:
    return {**asdict(step), "inflation": step.inflation, "padding": step.padding}


def _first(warehouse: Warehouse, reader: BatchReader, plan: Plan, adapter: str | None) -> dict[str, Any]:
    """The first optimizer step as it is read, where that is not too much to read here."""
    nothing: dict[str, Any] = {"first": None, "adapter": None}
    if not plan.optimizer_steps:
        return {**nothing, "first_left_out": "there is no optimizer step"}
    if (tokens := plan.optimizer_steps[0].tokens_naive) > MOST_TOKENS:
        why = f"the first optimizer step has {tokens:,} tokens, and at most {MOST_TOKENS:,} are read here: set groups_per_step"
        return {**nothing, "first_left_out": why}
    batches = next(iter(reader), None)
    if batches is None:
        return {**nothing, "first_left_out": "nothing is left of it when its tokens are read"}
    fields = None if adapter is None else adapter_fields(warehouse, batches, adapter, plan.at)
    return {
        "first": {**batch_of(batches), "report": _report(batches.report)},
        "first_left_out": None,
        "adapter": fields,
    }


def _code(uri: str, named: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """What makes the same reader: settings that are not its defaults."""
    import inspect

    from stepwell.reader import BatchReader

    usual = {name: one.default for name, one in inspect.signature(BatchReader).parameters.items()}
    given = {**named, **{name: value for name, value in asked.items() if name not in _SELECTING}}
    shown = "".join(f"    {name}={value!r},\n" for name, value in given.items() if usual.get(name) != value)
    return (
        "from stepwell.reader import BatchReader\nfrom stepwell.warehouse import Warehouse\n\n"
        f"reader = BatchReader(\n    Warehouse.open({uri!r}),\n{shown})\n"
    )
