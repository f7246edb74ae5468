"""Requests of OTLP, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
START, END = 1_760_000_000_000_000_000, 1_760_000_002_500_000_000


def any_value(value: Any) -> dict[str, Any]:
    """An AnyValue in JSON."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case list():
            return {"arrayValue": {"values": [any_value(item) for item in value]}}
        case dict():
            return {"kvlistValue": {"values": attributes(value)}}
        case _:
            return {}


def attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in values.items()]


def span(
    said: Mapping[str, Any], events: Sequence[tuple[str, Mapping[str, Any]]] = (), span_id: str = SPAN, **more: Any
) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "spanId": span_id,
        "name": "chat gpt-4o",
        "kind": 3,
        "startTimeUnixNano": str(START),
        "endTimeUnixNano": str(END),
        "attributes": attributes(said),
        "events": [{"name": name, "timeUnixNano": "1", "attributes": attributes(values)} for name, values in events],
        **more,
    }


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    resource = {"attributes": attributes({"service.name": "shop"})}
    return {
        "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "made up"}, "spans": list(spans)}]}]
    }
