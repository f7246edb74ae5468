"""OpenTelemetry's own SDK and exporter, over a real socket, into a warehouse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from tests.gateway.running import started

from stepwell.sdk.records import Step, encoded
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Ingest, Warehouse

ASKED, ANSWER = {"role": "user", "parts": [{"type": "text", "content": "Hi"}]}, {"role": "assistant", "content": "Yo"}
SAID: dict[str, str | int] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.response.id": "chatcmpl-1",
    "gen_ai.input.messages": json.dumps([ASKED]),
    "gen_ai.output.messages": json.dumps([{**ANSWER, "parts": [{"type": "text", "content": "Yo"}]}]),
    "gen_ai.usage.input_tokens": 11,
    "gen_ai.usage.output_tokens": 7,
}
DOCS = Path(__file__).parents[2] / "docs" / "gateway.md"


def doubled() -> str:
    """The query that the documentation gives."""
    text = DOCS.read_text(encoding="utf-8")
    return text.partition("## Traces")[2].partition("```sql\n")[2].partition("```")[0]


class Noted(OTLPSpanExporter):
    """An exporter that remembers what became of each batch."""

    results: tuple[SpanExportResult, ...] = ()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.results += (super().export(spans),)
        return self.results[-1]


def test_a_trace_becomes_a_step_beside_the_captured_one(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    process, port = started(tmp_path, token)
    try:
        exporter = Noted(
            endpoint=f"http://127.0.0.1:{port}/v1/traces",
            headers={"authorization": f"Bearer {token}"},
            compression=Compression.Gzip,
        )
        provider = TracerProvider(resource=Resource.create({"service.name": "shop"}), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("t")
        with tracer.start_as_current_span("agent"), tracer.start_as_current_span("chat m", attributes=SAID):
            pass
        provider.shutdown()
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert exporter.results == (SpanExportResult.SUCCESS,) * 2
    with closing(Spool(tmp_path / "spool" / "proxy.db")) as spool:
        for id_ in ("c.0", "c.1"):
            captured = Step(
                step_id=id_,
                messages=[{"role": "user", "content": "Hi"}],
                response=ANSWER,
                response_id="chatcmpl-1",
                dialect="openai.chat",
            )
            spool.append([Entry(id=f"step.{id_}", kind="step", body=encoded(captured))])

    warehouse = Warehouse.open(tmp_path / "warehouse")
    worker = Ingest(warehouse, tmp_path / "spool")
    while worker.run_once():
        pass
    [step] = warehouse.query("SELECT * FROM steps WHERE step_id NOT LIKE 'c.%'").to_pylist()
    trace, span, _ = step["step_id"].split(".")
    assert step["trajectory_id"] == trace and json.loads(step["metadata"])["otlp"]["span_id"] == span
    assert (step["input_tokens"], step["output_tokens"], step["model"], step["trainable"]) == (11, 7, "m", False)
    assert step["untrainable_reason"] == "text only: a trace reported it"
    assert step["started_at"] <= step["finished_at"]
    rows = warehouse.query(doubled()).to_pylist()
    assert [(row["step_id"], row["captured_id"]) for row in rows] == [(step["step_id"], "c.0")]
