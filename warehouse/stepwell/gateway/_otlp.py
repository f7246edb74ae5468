"""`POST /v1/traces`: OpenTelemetry's spans of model calls, over OTLP/HTTP, where any exporter sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from stepwell.errors import InvalidRecord
from stepwell.gateway._body import PROTOBUF, Body, check_count, read_body
from stepwell.gateway._once import random_ids
from stepwell.gateway._openapi import RESPONSES
from stepwell.gateway._otlp_spans import spans_in
from stepwell.gateway._otlp_steps import call_key, steps_of
from stepwell.gateway._problems import json_response
from stepwell.gateway._records import Checked, NewId
from stepwell.gateway._rows import Row, rows_of, with_entries
from stepwell.gateway._take import Way

__all__ = ["otlp_routes"]

_SHOWN = 3
"""Refused spans whose reasons are said."""

_SCHEMA = {
    "type": "object",
    "description": "An ExportTraceServiceRequest in OTLP's JSON form.",
    "properties": {"resourceSpans": {"type": "array", "items": {"type": "object"}}},
}
_TAKES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _SCHEMA},
            PROTOBUF: {"schema": {"type": "string", "format": "binary", "description": "The same in protobuf."}},
        },
    }
}
_PARTIAL = {"rejectedSpans": {"type": "string"}, "errorMessage": {"type": "string"}}
_ANSWER = {"type": "object", "properties": {"partialSuccess": {"type": "object", "properties": _PARTIAL}}}
_OK: dict[str, Any] = {
    "description": "An ExportTraceServiceResponse, in the form of the request: what could be read is kept.",
    "content": {"application/json": {"schema": _ANSWER}},
}


def otlp_routes(way: Way) -> APIRouter:
    """Spans that report a call of a model become steps; others are passed over. Answered when the disk has them."""
    router = APIRouter(tags=["submit"])
    answers: dict[int | str, dict[str, Any]] = {
        code: said for code, said in RESPONSES.items() if code not in (409, 422)
    }

    def look(body: Body, new_id: NewId) -> Sequence[Checked]:
        right, wrong = [], []
        for span in spans_in(body):
            try:
                right += steps_of(span)
            except InvalidRecord as error:
                wrong.append(Checked(f"{span.trace_id}.{span.span_id}", error))
        check_count(len(right) + len(wrong), way.config.max_batch)
        rows = rows_of(right, new_id)
        for row in rows:
            if isinstance(row, Row) and (key := call_key(row.step)) is not None:
                row.key = key
        return rows + wrong

    def prepare(items: Sequence[Checked]) -> None:
        with_entries(items, way.declarations)

    @router.post("/v1/traces", openapi_extra=_TAKES, responses=answers | {200: _OK})
    async def post_traces(request: Request) -> Response:
        """Spans of the GenAI semantic conventions and of OpenInference, as steps of text that are not for training."""
        body = await read_body(request, way.config.max_body_bytes, "json", "protobuf")
        items = await way.results("trace", body, look, random_ids, prepare)
        return _answer([item for item in items if item["status"] == "refused"], binary=body.form == "protobuf")

    return router


def _answer(refused: Sequence[dict[str, Any]], *, binary: bool) -> Response:
    reasons = [f"{item['field']}: {item['message']}" if item["field"] else item["message"] for item in refused]
    more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    detail = "; ".join(dict.fromkeys(reasons[:_SHOWN])) + more
    if not binary:
        partial = {"partialSuccess": {"rejectedSpans": str(len(refused)), "errorMessage": detail}}
        return json_response(partial if refused else {})
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    answer = ExportTraceServiceResponse()
    if refused:
        answer.partial_success.rejected_spans = len(refused)
        answer.partial_success.error_message = detail.encode("utf-8", "replace").decode()
    return Response(answer.SerializeToString(), media_type=PROTOBUF)
