"""The document that is checked in is the one that is served, and nothing that it allows, or just does not, is a server error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from stepwell.gateway import GatewayConfig, create_app
from stepwell.gateway._openapi import document
from stepwell.spool import Entry, Spool, SpoolWriter
from stepwell.warehouse import Ingest, Warehouse

KEPT = Path(__file__).parents[2] / "docs" / "openapi.json"


def _can_be_wrong(operation: dict[str, Any]) -> bool:
    """Any text may be an id in a path."""
    return "requestBody" in operation or any(one["in"] != "path" for one in operation.get("parameters", []))


OPERATIONS = [
    (path, method, mode)
    for path, operations in sorted(json.loads(KEPT.read_text(encoding="utf-8"))["paths"].items())
    for method, operation in operations.items()
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    if mode is GenerationMode.POSITIVE or _can_be_wrong(operation)
]
HEADERS = {"authorization": "Bearer t"}
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
FLUSH, STREAM = "/api/v1/flush", "/api/v1/stream"
IDS = {"step_id": "c001/00000", "trajectory_id": "c001-t0", "source": "shop"}
"""What is there to be found; groups and datasets are not."""


def few(method: str) -> settings:
    """Reading is SQL, and takes longer."""
    many = 6 if method == "get" else 15
    return settings(max_examples=many, deadline=None, database=None, suppress_health_check=SLOW)


def test_the_document_is_up_to_date() -> None:
    assert KEPT.read_text(encoding="utf-8") == document(), (
        "docs/openapi.json is not what the gateway says: run `make docs`"
    )


def test_the_document_says_who_may(token: str) -> None:
    said = json.loads(KEPT.read_text(encoding="utf-8"))
    operations = {f"{method} {path}": one for path, some in said["paths"].items() for method, one in some.items()}
    open_ = {name for name, one in operations.items() if not one["security"]}
    assert open_ == {
        *("get /api/v1/health", "get /api/v1/ready", "get /metrics", "post /api/v1/webhooks/{source}"),
    }
    assert said["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    for name, one in operations.items():
        assert {"403", "421"} <= one["responses"].keys() and (name in open_ or "401" in one["responses"]), name
        assert name in open_ or "Scope of the token: " in one["description"], name
    assert operations["put /api/v1/policy"]["description"].endswith("Scope of the token: `admin`.")
    assert operations["get /api/v1/steps"]["description"].endswith("`admin` or `read`.")
    keyed = {name for name, one in operations.items() if "Idempotency-Key" in str(one.get("parameters"))}
    assert keyed == {
        f"post /api/v1/{name}" for name in ("steps", "feedback", "feedback/bulk", "trajectories", "exchanges", "events")
    } | {"post /api/v1/trajectories/{trajectory_id}/complete", "post /api/v1/feedback/undo/{judgement_id}"}


def seed(root: Path, spool: Path) -> None:
    """Steps of two trajectories, and rewards of some of them."""
    rows = [
        {"step_id": f"c001/{n:05}", "trajectory_id": f"c001-t{n // 20}", "prompt_ids": [1, n], "response_ids": [2]}
        | ({"reward": 0.5} if n < 3 else {})
        for n in range(30)
    ]
    with Spool(spool / "seed.db") as writer:
        writer.append([Entry(f"step.{row['step_id']}", "step", b"{}", json.dumps(row).encode()) for row in rows])
    ingest = Ingest(Warehouse.open(root), spool)
    ingest.run_once()
    ingest.close()


@pytest.fixture(scope="module", name="schema")
def _schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Over a warehouse with a little in it: SQL is run. Nothing is submitted to the one that is flushed, so that it need not wait."""
    folder = tmp_path_factory.mktemp("spool")
    root = folder / "warehouse"
    seed(root, folder / "seed")
    writers = [SpoolWriter(Spool(folder / name / "gateway.db")) for name in ("one", "flushed")]
    config = GatewayConfig(allowed_hosts=("testserver",), max_body_bytes=1 << 20)
    one, flushed = (
        create_app(
            writer=writer,
            spool_folder=writer.spool.path.parent,
            token="t",
            warehouse=lambda: Warehouse.open(root, create=False),
            config=config,
        )
        for writer in writers
    )
    of = {app: schemathesis.openapi.from_asgi("/api/v1/openapi.json", app, headers=HEADERS) for app in (one, flushed)}
    yield lambda path: of[flushed if path == FLUSH else one]
    for writer in writers:
        writer.close()


@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_nothing_is_a_server_error(schema: Any, path: str, method: str, mode: GenerationMode) -> None:
    operation = schema(path)[path][method.upper()]

    @few(method)
    @given(case=operation.as_strategy(mode), there=st.booleans())
    def check(case: Any, there: bool) -> None:
        if there:
            case.path_parameters = {name: IDS.get(name, value) for name, value in (case.path_parameters or {}).items()}
        if path == STREAM:
            case.query = {**(case.query or {}), "follow": "false"}  # else it goes on and on
        answer = case.call(headers=HEADERS, timeout=120)  # the first question of a worker loads what it works with
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"] and answer.json()["detail"]

    check()
