"""Every endpoint with every scope; and a new endpoint is for admins until somebody gives it a rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.gateway._scopes import is_open, scopes_for

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))
API = "/api/v1"
WRITES: dict[str, frozenset[str]] = {
    "POST /api/v1/steps": frozenset({"ingest"}),
    "POST /api/v1/trajectories": frozenset({"ingest"}),
    "POST /api/v1/trajectories/{trajectory_id}/complete": frozenset({"ingest"}),
    "POST /api/v1/exchanges": frozenset({"ingest"}),
    "POST /api/v1/events": frozenset({"ingest"}),
    "POST /api/v1/flush": frozenset({"ingest", "curate"}),
    "POST /v1/traces": frozenset({"ingest"}),
    "POST /api/v1/feedback": frozenset({"ingest", "curate"}),
    "POST /api/v1/feedback/bulk": frozenset({"curate"}),
    "POST /api/v1/feedback/undo/{judgement_id}": frozenset({"curate"}),
    "POST /api/v1/batches/preview": frozenset({"read"}),
    "POST /api/v1/batches/prefix-tree": frozenset({"read"}),
    "POST /api/v1/datasets": frozenset({"curate"}),
    "DELETE /api/v1/datasets/{dataset}": frozenset({"curate"}),
    "PUT /api/v1/views/{name}": frozenset({"curate"}),
    "DELETE /api/v1/views/{name}": frozenset({"curate"}),
    "POST /api/v1/quarantine/{exchange_id}/reparse": frozenset({"curate"}),
    "PUT /api/v1/policy": frozenset(),
}
READS = {f"{API}/version": None, f"{API}/system/tokens": frozenset[str]()}
"""All others are for readers."""
OPEN = {"/api/v1/health", "/api/v1/ready", "/metrics", "/api/v1/webhooks/{source}"}


def test_every_endpoint_has_its_rule() -> None:
    seen: set[str] = set()
    for path, operations in DOCUMENT["paths"].items():
        for method in map(str.upper, operations):
            assert is_open(path) == (path in OPEN), path
            if path in OPEN:
                continue
            if method == "GET":
                assert scopes_for(method, path) == READS.get(path, frozenset({"read"})), path
            else:
                seen.add(f"{method} {path}")
                assert scopes_for(method, path) == WRITES[f"{method} {path}"], path
    assert seen == WRITES.keys()


@pytest.mark.parametrize(
    "path", [f"{API}/steps/", f"{API}/steps/x", f"{API}/nothing", "/", "/v1/traces/x", f"{API}/policy"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
def test_what_has_no_rule_is_for_admins(method: str, path: str) -> None:
    assert scopes_for(method, path) == frozenset()


@pytest.mark.parametrize("path", [f"{API}/steps", f"{API}/feedback", "/v1/traces"])
def test_a_rule_is_for_its_method(path: str) -> None:
    assert scopes_for("POST", path) and scopes_for("DELETE", path) == frozenset()


def test_datasets_are_the_curators() -> None:
    assert scopes_for("POST", f"{API}/datasets") == scopes_for("DELETE", f"{API}/datasets/a@1") == frozenset({"curate"})
    assert scopes_for("HEAD", f"{API}/stream") == frozenset({"read"})
