"""The document that is checked in is the one that is served, and nothing that it allows, or just does not, is a server error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from stepwell.gateway import GatewayConfig, create_app
from stepwell.gateway._openapi import document
from stepwell.spool import Spool, SpoolWriter

KEPT = Path(__file__).parents[2] / "docs" / "openapi.json"


def _can_be_wrong(operation: dict[str, Any]) -> bool:
    """Any text may be an id in a path."""
    return "requestBody" in operation or any(one["in"] != "path" for one in operation.get("parameters", []))


OPERATIONS = [
    (path, method, mode)
    for path, operations in sorted(json.loads(KEPT.read_text(encoding="utf-8"))["paths"].items())
    for method, operation in operations.items()
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    if path not in ("/api/v1/flush", "/api/v1/stream")  # they wait for what nobody commits here
    if mode is GenerationMode.POSITIVE or _can_be_wrong(operation)
]
HEADERS = {"authorization": "Bearer t"}
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
FEW = settings(max_examples=15, deadline=None, database=None, suppress_health_check=SLOW)


class Empty:
    """A warehouse with nothing in it."""

    def query(self, sql: str) -> pa.Table:
        return pa.table({})

    def marks(self) -> dict[str, int]:
        return {}

    def version(self) -> int:
        return 0


def test_the_document_is_up_to_date() -> None:
    assert KEPT.read_text(encoding="utf-8") == document(), (
        "docs/openapi.json is not what the gateway says: run `make docs`"
    )


@pytest.fixture(scope="module", name="schema")
def _schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("spool")
    writer = SpoolWriter(Spool(folder / "gateway.db"))
    config = GatewayConfig(allowed_hosts=("testserver",), max_body_bytes=1 << 20)
    app = create_app(writer=writer, spool_folder=folder, token="t", warehouse=Empty(), config=config)
    yield schemathesis.openapi.from_asgi("/api/v1/openapi.json", app, headers=HEADERS)
    writer.close()


@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_nothing_is_a_server_error(schema: Any, path: str, method: str, mode: GenerationMode) -> None:
    operation = schema[path][method.upper()]

    @FEW
    @given(case=operation.as_strategy(mode))
    def check(case: Any) -> None:
        answer = case.call(headers=HEADERS)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"] and answer.json()["detail"]

    check()
