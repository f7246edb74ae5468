"""A gateway in memory, to assert on what a program submits. Needs no extra.

with recorded() as records:
    run_my_agent()                      # uses `stepwell.sdk`
assert records.steps[0]["reward"] == 1.0
assert records.feedback == []
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from stepwell import sdk
from stepwell.errors import InvalidRecord
from stepwell.sdk.records import Feedback, Step, Trajectory, checked

__all__ = ["MemoryGateway", "Records", "recorded"]

_MODELS: dict[str, type[Step] | type[Feedback] | type[Trajectory]] = {
    "steps": Step,
    "feedback": Feedback,
    "trajectories": Trajectory,
}
_IDS = {"steps": "step_id", "feedback": "feedback_id", "exchanges": "exchange_id"}
_URL = "http://gateway.invalid"


class MemoryGateway(httpx2.BaseTransport):
    """Takes what an `sdk.Client(transport=…)` sends, checks it as a gateway does, and keeps it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, list[dict[str, Any]]] = {name: [] for name in (*_MODELS, "exchanges")}
        self._ids: set[tuple[str, str]] = set()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        name = request.url.path.rpartition("/")[2]
        if name == "flush":
            return httpx2.Response(200, json={})
        if name not in self._kept:
            return httpx2.Response(404, json={"detail": f"nothing is taken at {request.url.path}"})
        body = request.read()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        said = json.loads(body)
        with self._lock:
            items = [self._take(name, record) for record in (said if isinstance(said, list) else [said])]
        return httpx2.Response(200, json={"items": items})

    def kept(self, name: str) -> list[dict[str, Any]]:
        """What came to `/api/v1/<name>`, in its order; the same id twice once."""
        with self._lock:
            return list(self._kept[name])

    def _take(self, name: str, record: dict[str, Any]) -> dict[str, Any]:
        id = str(record.get(_IDS.get(name, "trajectory_id")))
        try:
            if (model := _MODELS.get(name)) is not None:
                checked(model, record)
        except InvalidRecord as error:
            return {"id": id, "status": "refused", "field": error.field, "message": error.reason}
        if name in _IDS:
            if (name, id) in self._ids:
                return {"id": id, "status": "duplicate"}
            self._ids.add((name, id))
        self._kept[name].append(record)
        return {"id": id, "status": "accepted"}


class Records:
    """What was submitted so far, as the gateway would get it: JSON objects in their order. Each look waits for delivery."""

    def __init__(self, client: sdk.Client, gateway: MemoryGateway) -> None:
        self._client = client
        self._gateway = gateway

    @property
    def steps(self) -> list[dict[str, Any]]:
        """As in `sdk.Step`; the steps of exchanges are made where those are parsed."""
        return self._delivered("steps")

    @property
    def feedback(self) -> list[dict[str, Any]]:
        """As in `sdk.Feedback`."""
        return self._delivered("feedback")

    @property
    def trajectories(self) -> list[dict[str, Any]]:
        """As in `sdk.Trajectory`: that they opened, completed, failed."""
        return self._delivered("trajectories")

    @property
    def exchanges(self) -> list[dict[str, Any]]:
        """Calls of wrapped clients, and answers handed in as `openai_response`: URLs, headers and bodies."""
        return self._delivered("exchanges")

    def _delivered(self, name: str) -> list[dict[str, Any]]:
        left = self._client.flush(30).unacknowledged
        assert not left, f"{left} records were not taken: {self._client.status().problem}"
        return self._gateway.kept(name)


@contextmanager
def recorded() -> Iterator[Records]:
    """Inside, `stepwell.sdk` submits to memory: nothing leaves the process, and nothing waits on the disk."""
    gateway = MemoryGateway()
    with sdk.Client(_URL, "in-memory", transport=gateway) as client:
        before = sdk.use(client)
        try:
            yield Records(client, gateway)
            client.flush(30)
        finally:
            sdk.use(before)
