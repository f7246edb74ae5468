"""Trajectories opened and ended by `stepwell run`, over plain requests to `CONTROL_HOST` that never leave the proxy.

They come the way the agent's calls come, so that whoever can name a trajectory can also say when it is over, and the proxy, which
knows what is still in flight, says up to where each producer's records belong to it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson
from mitmproxy import http

from stepwell.errors import InvalidRecord, SpoolError
from stepwell.proxy._capture import Capture
from stepwell.proxy._flows import Flows
from stepwell.proxy._metrics import PATH, Metrics
from stepwell.proxy._seen import Seen
from stepwell.proxy._upstream import UpstreamProxy
from stepwell.proxy._upstreams import Upstreams
from stepwell.sdk.records import Trajectory, checked
from stepwell.spool import CONTENT_TYPE, Entry, SpoolWriter, marks

_log = logging.getLogger(__name__)

TRAJECTORY = "trajectory"
"""Kind of the spool entry; its body is the `Trajectory` as JSON."""

_MAX_BODY = 4 << 20
_MAX_TEXT = 64 << 10
"""Characters of a proxy's URL, or of the list of its exceptions: thousands of trajectories may each have them in memory."""
_IDLE_SECONDS = 5.0
_FLUSH_SECONDS = 30.0


class Problem(Exception):
    """A refusal in the form of RFC 9457."""

    def __init__(self, status: int, title: str, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        if field is not None:
            self.document["field"] = field


class Control:
    """Answers requests to `CONTROL_HOST`."""

    def __init__(
        self,
        writer: SpoolWriter,
        folder: Path,
        flows: Flows,
        capture: Capture,
        seen: Seen,
        upstreams: Upstreams,
    ) -> None:
        self._upstreams = upstreams
        self._writer = writer
        self._folder = folder
        self._flows = flows
        self._capture = capture
        self._seen = seen
        self._metrics = Metrics(writer, folder, flows)

    async def answer(self, flow: http.HTTPFlow) -> None:
        """Set `flow.response`."""
        try:
            if flow.request.path.partition("?")[0] == PATH and flow.request.method == "GET":
                flow.response = http.Response.make(200, await self._figures(), {"content-type": CONTENT_TYPE})
            else:
                flow.response = _json(200, await self._dispatch(flow.request))
        except Problem as problem:
            flow.response = _json(problem.status, problem.document, "application/problem+json")

    async def _dispatch(self, request: http.Request) -> Mapping[str, Any]:
        path = request.path.partition("?")[0]
        known = {"/trajectories": "POST", "/trajectories/end": "POST", "/health": "GET", "/hosts": "GET", PATH: "GET"}
        if path not in known:
            raise Problem(404, "Not found", f"there is no {path}; there are {', '.join(known)}")
        if request.method != known[path]:
            raise Problem(405, "Method not allowed", f"{path} takes {known[path]}")
        if path == "/health":
            return self.health()
        if path == "/hosts":
            return self._seen.document()
        document = _document(request.raw_content or b"")
        key = request.headers.get("idempotency-key", "")[:256] or uuid.uuid4().hex
        if path == "/trajectories/end":
            return await self._end(_trajectory(document), key)
        proxy = self._proxy(document)
        return await self._open(_trajectory(document), proxy, key)

    async def _figures(self) -> bytes:
        try:
            return await asyncio.to_thread(self._metrics.text)
        except SpoolError as error:
            raise Problem(503, "Spool unavailable", str(error)) from error

    def health(self) -> dict[str, Any]:
        """Version, what is in flight, waits for the disk (bytes), and was lost; and the proxy that hosts are reached through."""
        return {
            "version": _version(),
            "in_flight": len(self._flows),
            "pending": self._writer.pending,
            "lost": self._writer.lost,
            "upstream_proxy": self._upstreams.address(),
        }

    def _proxy(self, document: object) -> UpstreamProxy | None:
        """The proxy that a trajectory asks for, taken out of what is recorded: it may hold a password."""
        url, no_proxy = _take(document, "upstream_proxy"), _take(document, "no_proxy")
        try:
            return self._upstreams.read(url, no_proxy)
        except ValueError as error:
            raise Problem(422, "Invalid record", f"upstream_proxy {error}", "upstream_proxy") from None

    async def _open(self, trajectory: Trajectory, proxy: UpstreamProxy | None, key: str) -> dict[str, Any]:
        if trajectory.state != "open":
            raise Problem(422, "Invalid record", f"state: {trajectory.state!r} is for /trajectories/end", "state")
        kept = await self._keep(trajectory, key)
        self._upstreams.assign(trajectory.trajectory_id, proxy)
        self._capture.announce(trajectory.trajectory_id)
        return {**kept, "upstream_proxy": self._upstreams.address(trajectory.trajectory_id)}

    async def _end(self, trajectory: Trajectory, key: str) -> dict[str, Any]:
        if trajectory.state == "open":
            raise Problem(422, "Invalid record", "state: say how it ended, completed or failed", "state")
        name = trajectory.trajectory_id
        if not await self._flows.idle(_IDLE_SECONDS, name):
            _log.warning("trajectory %s ended with %d calls still in flight", name, self._flows.count(name))
        try:
            found = await asyncio.to_thread(self._marks)
        except (SpoolError, TimeoutError) as error:
            raise Problem(503, "Spool unavailable", str(error) or "the disk does not keep up") from error
        given = trajectory.marks or {}
        merged = {producer: max(found.get(producer, 0), given.get(producer, 0)) for producer in {**found, **given}}
        answer = await self._keep_end(trajectory.model_copy(update={"marks": merged}), key)
        self._upstreams.forget(name)
        return {**answer, "marks": merged, "in_flight": self._flows.count(name), "calls": self._capture.calls(name)}

    async def _keep_end(self, trajectory: Trajectory, key: str) -> dict[str, Any]:
        """Keep it with the number of its calls that are not recorded. After the flush: all that failed is counted by now."""
        name = trajectory.trajectory_id
        lost = self._capture.take_lost(name)
        total = lost + (trajectory.lost or 0)
        try:
            return await self._keep(trajectory.model_copy(update={"lost": total}) if total else trajectory, key)
        except Problem:
            if lost:
                self._capture.add_lost(name, lost)  # for the end that can be kept
            raise

    def _marks(self) -> dict[str, int]:
        self._writer.flush(_FLUSH_SECONDS)
        return marks(self._folder)

    async def _keep(self, trajectory: Trajectory, key: str) -> dict[str, Any]:
        stamped = trajectory if trajectory.at else trajectory.model_copy(update={"at": datetime.now(UTC)})
        entry = Entry(
            id=f"{trajectory.trajectory_id}.{trajectory.state}.{key}",
            kind=TRAJECTORY,
            body=stamped.model_dump_json(exclude_none=True).encode(),
        )
        try:
            (number,) = await asyncio.wrap_future(self._writer.submit(entry))
        except SpoolError as error:
            raise Problem(503, "Spool unavailable", str(error)) from error
        return {"trajectory_id": trajectory.trajectory_id, "state": trajectory.state, "number": number}


def _document(body: bytes) -> object:
    if len(body) > _MAX_BODY:
        raise Problem(413, "Too large", f"a trajectory takes at most {_MAX_BODY} bytes")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, "Not JSON", str(error)) from error


def _take(document: object, field: str) -> str:
    """Take a text out of a JSON object; empty when it is not there."""
    value = document.pop(field, None) if isinstance(document, dict) else None
    if value is not None and (not isinstance(value, str) or len(value) > _MAX_TEXT):
        raise Problem(422, "Invalid record", f"{field}: give a text of at most {_MAX_TEXT} characters", field)
    return value or ""


def _trajectory(document: object) -> Trajectory:
    try:
        return checked(Trajectory, document)
    except InvalidRecord as error:
        raise Problem(422, "Invalid record", str(error), error.field) from error


def _json(status: int, document: Mapping[str, Any], kind: str = "application/json") -> http.Response:
    return http.Response.make(status, orjson.dumps(document), {"content-type": kind})


def _version() -> str:
    try:
        return version("stepwell")
    except PackageNotFoundError:
        return "unknown"
