"""Work of `POST /batches/preview`: a reader's plan, and its first optimizer step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stepwell.gateway._work_batch import adapter_fields, batch_of
from stepwell.gateway._work_reader import SELECTING, Asked, reader_of

if TYPE_CHECKING:
    from stepwell.reader import Plan, StepReport
    from stepwell.warehouse import Warehouse

__all__ = ["preview"]

_SHOWN = 200
"""Optimizer steps whose reports are in the answer."""
_SUMS = ("groups", "steps", "terms", "tokens_naive", "tokens_merged", "tokens", "packs", "empty", "padding")
_BESIDE = (*SELECTING, "adapter")
"""What is asked beside the reader's settings."""


def preview(warehouse: Warehouse, asked: Mapping[str, Any]) -> dict[str, Any]:
    """
    Raises:
        InvalidRecord: a setting; nothing is left to train on; what a reader refuses.
        Problem: 404 for a dataset that is not there; 422 for too many steps.
    """
    meant = reader_of(warehouse, asked, {name: value for name, value in asked.items() if name not in _BESIDE})
    return {
        **_planned(meant.plan),
        "code": _code(warehouse.uri, meant.named, asked),
        **_first(warehouse, meant, asked["adapter"]),
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


def _first(warehouse: Warehouse, meant: Asked, adapter: str | None) -> dict[str, Any]:
    """The first optimizer step as it is read."""
    batches, missing = meant.first()
    if batches is None:
        return {"first": None, "first_left_out": missing, "adapter": None}
    fields = None if adapter is None else adapter_fields(warehouse, batches, adapter, meant.plan.at)
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
    given = {**named, **{name: value for name, value in asked.items() if name not in _BESIDE}}
    shown = "".join(f"    {name}={value!r},\n" for name, value in given.items() if usual.get(name) != value)
    return (
        "from stepwell.reader import BatchReader\nfrom stepwell.warehouse import Warehouse\n\n"
        f"reader = BatchReader(\n    Warehouse.open({uri!r}),\n{shown})\n"
    )
