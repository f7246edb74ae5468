"""`POST /datasets`, `DELETE /datasets/{name}@{version}`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from stepwell.errors import InvalidRecord, StepwellError, StoreError
from stepwell.gateway._body import parsed, read_body
from stepwell.gateway._filters import StepFilters
from stepwell.gateway._openapi import RESPONSES, refusal, takes_one
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._read_datasets import code_of, found_dataset
from stepwell.gateway._read_listed import Listed
from stepwell.gateway._read_rows import FOUND, READ
from stepwell.sdk.records import checked

__all__ = ["Chosen", "making_routes"]

_MOST_BYTES = 2 << 20
"""Of a request: 500 ids and texts of the longest there may be are less."""


class Chosen(StepFilters):
    """The filters of the list of steps."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NewDataset(BaseModel):
    """Which steps to freeze, by a condition or by the filters of a list, and under which name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=200)]
    where: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    """A condition over the view `steps`."""
    filter: Chosen | None = None
    note: Annotated[str, Field(max_length=10_000)] | None = None
    pin: bool = False
    """Keep the files of today for who reads them with plain LanceDB."""


def making_routes(listed: Listed) -> APIRouter:
    """For curators."""
    router = APIRouter(tags=["datasets"])

    refused: dict[int | str, dict[str, Any]] = {**READ, **{code: RESPONSES[code] for code in (400, 413, 415)}}

    @router.post("/datasets", status_code=201, openapi_extra=takes_one(NewDataset), responses=refused)
    async def post_dataset(request: Request) -> Response:
        """Freeze the steps that a condition or a filter selects as a name's next version; by default all that may be trained on."""
        said = checked(NewDataset, parsed((await read_body(request, _MOST_BYTES)).plain))
        if said.where is not None and said.filter is not None:
            raise Problem(
                422, "filter: give a condition or filters, not both (filters have `where`, too)", field="filter"
            )
        return json_response(await run_in_threadpool(_made, listed, said), 201)

    @router.delete(
        "/datasets/{dataset:path}",
        status_code=204,
        responses={**FOUND, 409: refusal("It is pinned: force=true deletes it all the same.")},
    )
    def delete_dataset(dataset: str, force: Annotated[bool, Query()] = False) -> Response:
        """Take a version out of the registry; its number must be said, and is not given again. The steps stay."""
        from stepwell.warehouse import reference

        if reference(dataset)[1] is None:
            raise Problem(422, f"say which version: {dataset!r:.200}@1", field="dataset")
        found = found_dataset(listed.rows, dataset)
        if found["pinned"] and not force:
            raise Problem(409, f"dataset {dataset!r:.200} is pinned: delete it with force=true, or not at all")
        with listed.rows.turn(), listed.rows.warehouse.datasets() as datasets:
            datasets.delete(found["name"], found["version"], force=force)
        return Response(status_code=204)

    return router


def _made(listed: Listed, said: NewDataset) -> dict[str, Any]:
    chosen = said.filter or StepFilters(where=said.where or "trainable AND split = 'train' AND NOT side")
    where = listed.over_view(chosen)
    with listed.rows.turn(), listed.rows.warehouse.datasets() as datasets:
        try:
            made = datasets.create(said.name, where, note=said.note, pin=said.pin)
        except (StoreError, InvalidRecord):
            raise
        except StepwellError as error:  # BadQuery: the condition cannot be worked out
            raise Problem(422, f"where: {error}", field="where") from error
    return {
        **{
            name: getattr(made, name)
            for name in ("name", "version", "steps", "filter", "note", "at_commit", "fingerprint")
        },
        "pinned": made.pinned,
        "created_at": made.created_at,
        "code": code_of(made.name, made.version),
    }
