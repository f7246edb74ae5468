"""`GET /datasets`, `GET /datasets/{dataset}`, and what two versions differ in, where one comes from, and its rows as a file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from stepwell.gateway._cursor import literal
from stepwell.gateway._dataset_files import MEDIA, Form, pieces
from stepwell.gateway._parts import PartRoute
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._read_rows import FOUND, READ, Filter, Rows, not_found, with_json

__all__ = ["code_of", "dataset_routes", "found_dataset"]

_JSON = ("lineage",)
_DOWNLOADS = 2
"""At once: each has a warehouse to itself for as long as its client takes."""
_CHANGES = 1000

Version = Annotated[int, Query(ge=1, lt=2**31)]
Change = Annotated[Literal["added", "removed", "changed"] | None, Query(description="Only these.")]
From = Annotated[int, Query(ge=0, lt=2**31, description="Changes to pass over.")]


def dataset_routes(rows: Rows) -> APIRouter:
    """What a dataset is; its rows are read by the reader, or SQL over `dataset_rows`, or as a file."""
    router = APIRouter(tags=["read"])
    part = APIRouter(tags=["read"], route_class=PartRoute)
    downloads = threading.BoundedSemaphore(_DOWNLOADS)

    @router.get("/datasets", responses=READ)
    def get_datasets(name: Filter = None) -> Response:
        """Every version of every dataset."""
        where = "" if name is None else f"WHERE name = {literal(name)} "
        found = rows.ask(f"SELECT * FROM datasets {where}ORDER BY name, version")
        return json_response({"items": [with_json(row, _JSON) for row in found], "next": None})

    @part.get("/datasets/{name:path}/diff", responses=FOUND)
    def get_diff(name: str, a: Version, b: Version, change: Change = None, skip: From = 0) -> Response:
        """What changed from version `a` to version `b`: counts, and the steps, a thousand at a time."""
        return json_response(_difference(rows, name, a, b, change, skip))

    @part.get("/datasets/{dataset:path}/lineage", responses=FOUND)
    def get_lineage(dataset: str) -> Response:
        """Where a version comes from: filter, commit, policies, models, sources, and the datasets it was made from."""
        found = found_dataset(rows, dataset)
        with rows.turn(), rows.warehouse.datasets() as datasets:
            return json_response(datasets.lineage(found["name"], found["version"]))

    @part.get("/datasets/{dataset:path}/download", responses=FOUND)
    def get_file(dataset: str, to: Form = "parquet") -> Response:
        """Its steps, whole, with rewards and labels as they were frozen: a file that is made while it is sent, and verified."""
        found = found_dataset(rows, dataset)
        if not downloads.acquire(blocking=False):
            detail = f"{_DOWNLOADS} datasets are being downloaded: come again"
            raise Problem(503, detail, headers={"retry-after": "5"})
        sent = _begun(_released(pieces(rows.warehouse, found["name"], found["version"], to), downloads))
        plain = "".join(one if one.isascii() and (one.isalnum() or one in "-_") else "_" for one in found["name"])
        named = f'attachment; filename="{plain}-v{found["version"]}.{to}"'
        return StreamingResponse(sent, media_type=MEDIA[to], headers={"content-disposition": named})

    @router.get("/datasets/{dataset:path}", responses=FOUND)
    def get_dataset(dataset: str) -> Response:
        """One dataset, `name` (its newest version) or `name@version`, the numbers of all versions of that name, and code that reads it."""
        found = found_dataset(rows, dataset)
        return json_response({**with_json(found, _JSON), "code": code_of(found["name"], found["version"])})

    part.include_router(router)
    return part


def found_dataset(rows: Rows, dataset: str) -> dict[str, Any]:
    """The registry's row of `name` or `name@version`, with the numbers of all `versions`. Raises Problem: 404, 422."""
    from stepwell.warehouse import reference  # at the first read, like the warehouse itself

    name, version = reference(dataset)
    found = rows.ask(f"SELECT * FROM datasets WHERE name = {literal(name)} ORDER BY version")
    right = [row for row in found if version in (None, row["version"])]
    if not right:
        raise not_found("dataset", dataset)
    return {**right[-1], "versions": [row["version"] for row in found]}


def _difference(rows: Rows, name: str, a: int, b: int, change: str | None, skip: int) -> dict[str, Any]:
    import pyarrow.compute as pc

    before, after = (found_dataset(rows, f"{name}@{version}") for version in (a, b))
    with rows.turn(), rows.warehouse.datasets() as datasets:
        found = datasets.diff(f"{name}@{a}", f"{name}@{b}")
    counts, columns = _counts(found["change"]), _counts(found["columns"].combine_chunks().flatten())
    items = found if change is None else found.filter(pc.field("change") == change)
    return {
        "name": name,
        "a": a,
        "b": b,
        **{kind: counts.get(kind, 0) for kind in ("added", "removed", "changed")},
        "columns": columns,
        "filters": {"a": before["filter"], "b": after["filter"]},
        "items": items.slice(skip, _CHANGES).to_pylist(maps_as_pydicts="lossy"),
        "next_skip": skip + _CHANGES if len(items) > skip + _CHANGES else None,
    }


def _counts(values: Any) -> dict[str, int]:
    """How often each is there."""
    return {row["values"]: row["counts"] for row in values.value_counts().to_pylist()}


def code_of(name: str, version: int) -> dict[str, str]:
    """How to read a version, in Python and on the command line."""
    label = f"{name}@{version}"
    return {
        "reader": f"BatchReader(warehouse, dataset={label!r}, max_tokens=65_536)",
        "table": f"warehouse.datasets.read({name!r}, {version})",
        "shell": f"stepwell dataset export {_quoted(label)} {_quoted(f'{name}-v{version}.parquet')}",
    }


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _begun(sent: Iterator[bytes]) -> Iterator[bytes]:
    """The same with its first piece made: what fails at once is answered as an error, and what has begun ends, though nobody reads on."""
    first = next(sent, b"")
    return chain([first], sent)


def _released(sent: Iterator[bytes], downloads: threading.BoundedSemaphore) -> Iterator[bytes]:
    try:
        yield from sent
    finally:
        downloads.release()
