"""The project of the token that a request came with: stamped on what is submitted, as `metadata.project`.

It is a mark for queries (`json_extract_string(metadata, '$.project') = 'shop'`), and no wall between those who read or name records: ids
are one space for all projects.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from stepwell.errors import InvalidRecord

__all__ = ["KEY", "PROJECT", "with_project"]

KEY = "project"
PROJECT: ContextVar[str | None] = ContextVar("stepwell_gateway_project", default=None)
"""Set by the guard for the length of a request; threads that work for the request see it."""

_HEADER = "x-stepwell-meta-project"
"""How the metadata of a recorded call travels."""


def with_project(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    """A record's plain values with the project of its token. Raises InvalidRecord for a record that names another one."""
    if (project := PROJECT.get()) is None:
        return values
    if kind == "exchange":
        return _in_headers(values, project)
    metadata = values.get("metadata")
    if metadata is None:
        return {**values, "metadata": {KEY: project}}
    if not isinstance(metadata, dict):
        return values  # refused by its own check
    _check(metadata.get(KEY), project, f"metadata.{KEY}")
    return {**values, "metadata": {**metadata, KEY: project}}


def _in_headers(values: dict[str, Any], project: str) -> dict[str, Any]:
    headers = values.get("request_headers") or []
    if not isinstance(headers, list):
        return values
    for pair in headers:
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and pair[0].lower() == _HEADER:
            _check(pair[1], project, "request_headers")
            return values
    return {**values, "request_headers": [*headers, [_HEADER, project]]}


def _check(said: object, project: str, field: str) -> None:
    if said is not None and said != project:
        raise InvalidRecord(field, f"is not {project!r}, the project of the token that this came with")
