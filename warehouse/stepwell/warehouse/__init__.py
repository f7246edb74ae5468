"""The warehouse: step records in versioned LanceDB tables, on a local folder or an object store.

    from stepwell.warehouse import Warehouse

    warehouse = Warehouse.open("./stepwell-data/warehouse")          # or s3://bucket/prefix
    warehouse.query("SELECT status, count(*) FROM steps GROUP BY ALL")
    warehouse.datasets.create("math", "trajectory_reward > 0 AND status = 'ok'")
    warehouse.datasets.read("math", 1)                               # Arrow, whole prompts, the same bytes for ever

Facts are stored: `steps`, and `events` about them. Rewards, states and readiness are resolved from those when asked; summaries of them are
kept for speed, and can be made anew. Needs the extra `warehouse`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from stepwell.errors import MissingExtra

if TYPE_CHECKING:
    from stepwell.warehouse._copy.copy import Copied, Copy
    from stepwell.warehouse._datasets.datasets import Datasets
    from stepwell.warehouse._datasets.export import export
    from stepwell.warehouse._datasets.origin import origin
    from stepwell.warehouse._datasets.registry import Dataset, reference
    from stepwell.warehouse._forget.forget import Forget
    from stepwell.warehouse._forget.report import Forgotten
    from stepwell.warehouse._ingest.config import IngestConfig
    from stepwell.warehouse._ingest.ingest import Ingest
    from stepwell.warehouse._ingest.process import run_ingest
    from stepwell.warehouse._migrate.migrate import migrate
    from stepwell.warehouse._parse.step_columns import StepColumns
    from stepwell.warehouse._query.condition import columns_of_condition
    from stepwell.warehouse._query.query import BadQuery
    from stepwell.warehouse._redact.records import redacted_quarantine, redacted_step
    from stepwell.warehouse._redact.rules import RedactConfig, RedactionFailed, Redactor
    from stepwell.warehouse._upkeep.done import Maintenance
    from stepwell.warehouse._verify.report import Report
    from stepwell.warehouse._verify.verify import verify
    from stepwell.warehouse._warehouse import Warehouse

__all__ = [
    "BadQuery",
    "Copied",
    "Copy",
    "Dataset",
    "Datasets",
    "Forget",
    "Forgotten",
    "Ingest",
    "IngestConfig",
    "Maintenance",
    "RedactConfig",
    "RedactionFailed",
    "Redactor",
    "Report",
    "StepColumns",
    "Warehouse",
    "columns_of_condition",
    "export",
    "migrate",
    "origin",
    "redacted_quarantine",
    "redacted_step",
    "reference",
    "run_ingest",
    "verify",
]

_HOMES = {
    "BadQuery": "_query.query",
    "Copied": "_copy.copy",
    "Copy": "_copy.copy",
    "Dataset": "_datasets.registry",
    "Datasets": "_datasets.datasets",
    "Forget": "_forget.forget",
    "Forgotten": "_forget.report",
    "Ingest": "_ingest.ingest",
    "IngestConfig": "_ingest.config",
    "Maintenance": "_upkeep.done",
    "RedactConfig": "_redact.rules",
    "RedactionFailed": "_redact.rules",
    "Redactor": "_redact.rules",
    "Report": "_verify.report",
    "StepColumns": "_parse.step_columns",
    "Warehouse": "_warehouse",
    "columns_of_condition": "_query.condition",
    "export": "_datasets.export",
    "migrate": "_migrate.migrate",
    "origin": "_datasets.origin",
    "redacted_quarantine": "_redact.records",
    "redacted_step": "_redact.records",
    "reference": "_datasets.registry",
    "run_ingest": "_ingest.process",
    "verify": "_verify.verify",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: settings must not cost LanceDB's imports, and a missing extra is named."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("stepwell"):
            raise
        raise MissingExtra(error.name or "?", "warehouse") from error
