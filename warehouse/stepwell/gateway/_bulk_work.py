"""How many steps are judged at once: chosen, written down, said one by one; and how that is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from stepwell.errors import InvalidRecord, SpoolError
from stepwell.gateway._bulk_store import Judgement, Judgements
from stepwell.gateway._filters import Meant, StepFilters
from stepwell.gateway._memory import hashed
from stepwell.gateway._problems import RETRY_AFTER, Problem
from stepwell.gateway._project import with_project
from stepwell.gateway._read_listed import Listed
from stepwell.gateway._records import HEAD, NewId
from stepwell.gateway._take import Way
from stepwell.sdk.records import Feedback, checked, encoded, new_id
from stepwell.spool import Entry

__all__ = ["MOST", "Bulk"]

MOST = 50_000
"""Steps of one judgement."""
_AT_ONCE = 500
"""Events that are made and kept together: other requests come between."""
_LONGEST = 16 << 10
"""Bytes of the feedback, which is kept once for each step."""
_NOT_SAID = ("feedback_id", "step_id", "trajectory_id", "group_id", "response_id", "undo")
_UNDO = ".undo"
"""What the id of an event ends with that undoes the one before this."""
MARK = "bulk"
"""What the metadata of every event call the judgement."""


class Bulk:
    """Judges and takes back. One event loop."""

    def __init__(self, way: Way, listed: Listed, judgements: Judgements) -> None:
        self._way, self._listed, self._judgements = way, listed, judgements

    async def judge(
        self,
        said: Mapping[str, Any],
        filters: StepFilters | None,
        ids: Sequence[str] | None,
        limit: int,
        expect: int | None,
        name: NewId,
    ) -> dict[str, Any]:
        """Say `said` of every step that is chosen. A request that comes again goes on with what was chosen the first time.

        Raises:
            InvalidRecord: the feedback cannot be what it is, or has no author; not one way to choose.
            Problem: 422 for a filter, for too many steps and for another number than `expect`; 503 where not all is kept, with `undo`.
        """
        template = _template(said)
        id_ = name() or new_id()
        before = await anyio.to_thread.run_sync(self._judgements.get, id_)
        if before is None:
            steps = await anyio.to_thread.run_sync(self._chosen, filters, ids, limit, expect)
            if not steps:
                return {"undo": None, "steps": 0, "accepted": 0}
            before = await anyio.to_thread.run_sync(self._judgements.keep, id_, dict(said), steps)
        kept = await self._kept(before, [f"{id_}.{place}" for place in range(before.count)], template)
        return {"undo": id_, "steps": before.count, "accepted": kept}

    async def undo(self, id_: str, author: str | None) -> dict[str, Any]:
        """Take back every event of a judgement, kept or not. Raises Problem: 404, and 503 where not all is kept."""
        found = await anyio.to_thread.run_sync(self._judgements.get, id_)
        if found is None:
            detail = f"there is no judgement {id_!r:.300}; GET /api/v1/feedback/bulk lists those of the last 90 days"
            raise Problem(404, detail)
        template = checked(Feedback, with_project("feedback", {"step_id": "-", "undo": "-", "author": author}))
        kept = await self._kept(found, [f"{id_}.{place}{_UNDO}" for place in range(found.count)], template)
        await anyio.to_thread.run_sync(self._judgements.undone, id_)
        return {"undo": id_, "steps": found.count, "accepted": kept}

    def _chosen(
        self, filters: StepFilters | None, ids: Sequence[str] | None, limit: int, expect: int | None
    ) -> list[str]:
        """The steps as of the newest commit, in the order of commit."""
        meant = self._meant(filters, ids)
        clause = "".join(f" AND ({one})" for one in meant.conditions)
        order = 'ORDER BY "commit", producer, sequence, step_id'
        rows = self._listed.ask(f"SELECT step_id FROM steps WHERE true{clause} {order} LIMIT {limit + 1}", meant)
        if not meant.exact:
            raise Problem(
                422, "q: finds more steps than it looks for: say more words, or choose by other filters", field="q"
            )
        if len(rows) > limit:
            many = self._listed.count("steps", meant)["count"]
            raise Problem(
                422,
                f"{many:,} steps are selected, and the limit is {limit:,}: none is judged",
                field="limit",
                steps=many,
            )
        if expect is not None and len(rows) != expect:
            detail = f"{len(rows):,} steps are selected now, and not {expect:,}: none is judged"
            raise Problem(422, detail, field="expect", steps=len(rows))
        return [row["step_id"] for row in rows]

    def _meant(self, filters: StepFilters | None, ids: Sequence[str] | None) -> Meant:
        if (filters is None) == (ids is None):
            raise InvalidRecord("filter", "give either a filter or ids")
        if filters is not None:
            if not filters.given():
                raise InvalidRecord("filter", 'says nothing, and would mean every step: {"where": "true"} says so')
            return self._listed.meant(filters)
        import pyarrow as pa

        within = {"_asked": pa.table({"step_id": pa.array(ids, pa.string())})}
        return Meant(["step_id IN (SELECT step_id FROM _asked)"], within)

    async def _kept(self, judgement: Judgement, events: Sequence[str], template: Feedback) -> int:
        """Say it of each step; how many of the events are new."""
        kept = 0
        for start in range(0, judgement.count, _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            entries = await asyncio.to_thread(_entries, judgement, events[some], judgement.steps[some], template)
            try:
                news = await self._way.keeper.keep(entries)
            except SpoolError as error:
                detail = f"{error}; of {judgement.count} steps {start} are judged: the same request again goes on"
                raise Problem(503, detail, headers={"retry-after": RETRY_AFTER}, undo=judgement.id) from error
            await asyncio.to_thread(self._way.memory.note, [hashed(entry.id) for entry in entries])
            self._way.metrics.count("feedback", [{"status": "accepted" if new else "duplicate"} for new in news])
            kept += sum(news)
        return kept


def _template(said: Mapping[str, Any]) -> Feedback:
    """The feedback of a step that is still to be named. Raises InvalidRecord with the field's path."""
    for name in _NOT_SAID:
        if name in said:
            raise InvalidRecord(f"feedback.{name}", "is not given here: the steps are chosen, and each event is named")
    if not said.get("author"):
        raise InvalidRecord("feedback.author", "must be given: whose judgement is it?")
    try:
        template = checked(Feedback, with_project("feedback", {**said, "step_id": "-"}))
    except InvalidRecord as error:
        raise InvalidRecord(f"feedback.{error.field}", error.reason) from error
    if len(encoded(template)) > _LONGEST:
        raise InvalidRecord("feedback", f"has more than {_LONGEST} bytes, and is kept once for each step")
    return template


def _entries(judgement: Judgement, events: Sequence[str], steps: Sequence[str], template: Feedback) -> list[Entry]:
    marked = template.model_copy(update={"metadata": {**(template.metadata or {}), MARK: judgement.id}})
    undoing = template.undo is not None

    def record(event: str, step: str) -> Feedback:
        undone = {"undo": event.removesuffix(_UNDO)} if undoing else {}
        return marked.model_copy(update={"feedback_id": event, "step_id": step, **undone})

    made = ((event, record(event, step)) for event, step in zip(events, steps, strict=True))
    return [Entry(f"feedback.{event}", "feedback", HEAD, encoded(one)) for event, one in made]
