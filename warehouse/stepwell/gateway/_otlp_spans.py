"""Spans of an OTLP request, in protobuf or JSON, as plain values.

The JSON form is protobuf's own, but that ids are hexadecimal (OTLP specification, "JSON Protobuf Encoding"): they are written anew, and
protobuf's own reader checks the rest.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepwell.gateway._body import Body, parsed
from stepwell.gateway._problems import Problem

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

__all__ = ["Span", "SpanEvent", "spans_in"]

_ERROR = 2
"""`STATUS_CODE_ERROR`."""
_IDS = (("traceId", "trace_id"), ("spanId", "span_id"), ("parentSpanId", "parent_span_id"))


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened during a span."""

    name: str
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Ids are hexadecimal, empty where there are none; times are nanoseconds since 1970, 0 where not known."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    started_ns: int
    finished_ns: int
    attributes: dict[str, Any]
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None
    """What its status says, where that is an error."""
    resource: dict[str, Any] = field(default_factory=dict)


def spans_in(body: Body) -> Iterator[Span]:
    """The spans of a request. Raises Problem (400) for what is none."""
    for of_resource in _request(body).resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield _span(span, resource)


def _request(body: Body) -> ExportTraceServiceRequest:
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    try:
        if body.form == "protobuf":
            return ExportTraceServiceRequest.FromString(body.plain)
        value = parsed(body.plain)
        if not isinstance(value, dict):
            raise Problem(400, "the body must be an object: an ExportTraceServiceRequest")
        _write_ids(value)
        return ParseDict(value, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except (ParseError, DecodeError, ValueError, TypeError) as error:
        raise Problem(400, f"the body is no ExportTraceServiceRequest: {str(error)[:500]}") from None


def _write_ids(request: dict[str, Any]) -> None:
    """Ids in base64, as protobuf reads them. Raises ValueError for what is not hexadecimal."""
    for of_resource in _listed(request, "resourceSpans", "resource_spans"):
        for of_scope in _listed(of_resource, "scopeSpans", "scope_spans"):
            for span in _listed(of_scope, "spans"):
                for item in (span, *_listed(span, "links")):
                    for names in _IDS:
                        for name in names:
                            if isinstance(said := item.get(name), str):
                                item[name] = base64.b64encode(bytes.fromhex(said)).decode()


def _listed(value: dict[str, Any], *names: str) -> Iterator[dict[str, Any]]:
    for name in names:
        items = value.get(name)
        if isinstance(items, list):
            yield from (item for item in items if isinstance(item, dict))


def _span(span: Message, resource: dict[str, Any]) -> Span:
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        started_ns=span.start_time_unix_nano,
        finished_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        events=tuple(SpanEvent(event.name, _attributes(event.attributes)) for event in span.events),
        error=(span.status.message or "error") if span.status.code == _ERROR else None,
        resource=resource,
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_value(item) for item in value.array_value.values]
        case "kvlist_value":
            return _attributes(value.kvlist_value.values)
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case name:
            return getattr(value, name)
