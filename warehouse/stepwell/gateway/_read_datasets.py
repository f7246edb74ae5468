"""`GET /datasets`, `GET /datasets/{dataset}`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from stepwell.gateway._cursor import literal
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_rows import FOUND, READ, Rows, not_found, with_json

__all__ = ["dataset_routes"]

_JSON = ("lineage",)


def dataset_routes(rows: Rows) -> APIRouter:
    """What a dataset is, not its rows: those are read by the reader, or SQL over `dataset_rows`."""
    router = APIRouter(tags=["read"])

    @router.get("/datasets", responses=READ)
    def get_datasets() -> Response:
        """Every version of every dataset."""
        found = rows.ask("SELECT * FROM datasets ORDER BY name, version")
        return json_response({"items": [with_json(row, _JSON) for row in found], "next": None})

    @router.get("/datasets/{dataset:path}", responses=FOUND)
    def get_dataset(dataset: str) -> Response:
        """One dataset, `name` (its newest version) or `name@version`, and the numbers of all versions of that name."""
        from stepwell.warehouse import reference  # at the first read, like the warehouse itself

        name, version = reference(dataset)
        found = rows.ask(f"SELECT * FROM datasets WHERE name = {literal(name)} ORDER BY version")
        right = [row for row in found if version in (None, row["version"])]
        if not right:
            raise not_found("dataset", dataset)
        versions = [row["version"] for row in found]
        return json_response({**with_json(right[-1], _JSON), "versions": versions})

    return router
