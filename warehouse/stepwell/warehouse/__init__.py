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
    from stepwell.warehouse._config import IngestConfig
    from stepwell.warehouse._copy import Copied, Copy
    from stepwell.warehouse._datasets import Datasets
    from stepwell.warehouse._export import export
    from stepwell.warehouse._forget import Forget
    from stepwell.warehouse._forget_report import Forgotten
    from stepwell.warehouse._ingest import Ingest
    from stepwell.warehouse._maintain import Maintenance
    from stepwell.warehouse._migrate import migrate
    from stepwell.warehouse._process import run_ingest
    from stepwell.warehouse._query import BadQuery
    from stepwell.warehouse._redact import RedactConfig, RedactionFailed, Redactor
    from stepwell.warehouse._redact_records import redacted_quarantine, redacted_step
    from stepwell.warehouse._registry import Dataset, reference
    from stepwell.warehouse._verify import verify
    from stepwell.warehouse._verify_report import Report
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
    "Warehouse",
    "export",
    "migrate",
    "redacted_quarantine",
    "redacted_step",
    "reference",
    "run_ingest",
    "verify",
]

_HOMES = {
    "BadQuery": "_query",
    "Copied": "_copy",
    "Copy": "_copy",
    "Dataset": "_registry",
    "Datasets": "_datasets",
    "Forget": "_forget",
    "Forgotten": "_forget_report",
    "Ingest": "_ingest",
    "IngestConfig": "_config",
    "Maintenance": "_maintain",
    "RedactConfig": "_redact",
    "RedactionFailed": "_redact",
    "Redactor": "_redact",
    "Report": "_verify_report",
    "Warehouse": "_warehouse",
    "export": "_export",
    "migrate": "_migrate",
    "redacted_quarantine": "_redact_records",
    "redacted_step": "_redact_records",
    "reference": "_registry",
    "run_ingest": "_process",
    "verify": "_verify",
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
