"""One request to the gateway, and what its answer means for the records in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stepwell.sdk._fork import ready, undivided
from stepwell.sdk._item import Item, Kind

if TYPE_CHECKING:
    import httpx2

__all__ = ["Again", "Answer", "Poster", "Refusal", "Settled", "TooMuch"]

PATHS: dict[Kind, str] = {
    "step": "steps",
    "feedback": "feedback",
    "trajectory": "trajectories",
    "exchange": "exchanges",
}
_MAX_RETRY_AFTER = 300.0
_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})
_WORTH_IT = 2048
"""Bytes of a body from which on it is compressed."""
_REMEDY = (
    "set STEPWELL_TOKEN or call sdk.configure(token=…) with one that `stepwell token create --scope ingest` makes, or let "
    "STEPWELL_HOME name the folder of the running installation"
)
_NETWORK = ("httpx2", "encodings.idna")
"""`encodings.idna` is what the first look-up of a host name loads."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record the gateway will never take."""

    id: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Settled:
    """Every record was answered for: acknowledged (on the gateway's disk), or refused."""

    acknowledged: int
    duplicates: int = 0
    refused: list[Refusal] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Again:
    """Nothing is known to have arrived: try again, not before `after` seconds when the gateway named a time."""

    reason: str
    after: float | None = None
    denied: bool = False
    """The token is not good, or not good for this: nothing will pass before there is another."""


@dataclass(frozen=True, slots=True)
class TooMuch:
    """The request as a whole was refused; a smaller one may pass."""

    reason: str


Answer = Settled | Again | TooMuch


class Poster:
    """Speaks to one gateway. `token` is asked before each request, so a token made or changed later is picked up.

    The agent's proxy variables are ignored on purpose: the very agent that is being captured runs with HTTPS_PROXY set.
    """

    def __init__(
        self, url: str, token: Callable[[], str | None], transport: httpx2.BaseTransport | None = None
    ) -> None:
        self._url = url
        self._near = (urlsplit(url).hostname or "") in _THIS_MACHINE
        self._token = token
        self._transport = transport
        self._http: httpx2.Client | None = None

    def post(self, items: Sequence[Item]) -> Answer:
        """Send a batch of one kind. Never raises for what the network or the gateway does."""
        ready(*_NETWORK)
        import httpx2

        path = f"/api/v1/{PATHS[items[0].kind]}"
        body, headers = self._packed(b"[" + b",".join(item.whole() for item in items) + b"]")
        try:
            response = self._client().post(path, content=body, headers={**self._headers(), **headers})
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            return Again(f"the gateway at {self._url} cannot be reached ({type(error).__name__}: {error})")
        return self._understood(response, items)

    def barrier(self, timeout: float) -> str | None:
        """Wait until what is acknowledged is also in the warehouse; None when it is, else the reason it is not yet."""
        ready(*_NETWORK)
        import httpx2

        try:
            response = self._client().post(
                "/api/v1/flush", json={"timeout": timeout}, headers=self._headers(), timeout=timeout + 5.0
            )
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            return f"the gateway at {self._url} cannot be reached ({type(error).__name__}: {error})"
        return None if response.status_code == 200 else self._said(response)

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def _client(self) -> httpx2.Client:
        if self._http is None:
            import httpx2

            with undivided:  # the first client of a process imports the rest of the library, and loads certificates
                self._http = httpx2.Client(
                    base_url=self._url,
                    trust_env=False,
                    timeout=httpx2.Timeout(30.0, connect=5.0),
                    follow_redirects=False,
                    headers={"content-type": "application/json", "user-agent": "stepwell-sdk"},
                    transport=self._transport,
                )
        return self._http

    def _packed(self, body: bytes) -> tuple[bytes, dict[str, str]]:
        """The body, compressed where it crosses a network: on this machine both sides would spend more time than they save."""
        if self._near or len(body) < _WORTH_IT:
            return body, {}
        ready("gzip")
        import gzip

        return gzip.compress(body, compresslevel=1, mtime=0), {"content-encoding": "gzip"}

    def _headers(self) -> dict[str, str]:
        token = self._token()
        return {"authorization": f"Bearer {token}"} if token else {}

    def _understood(self, response: httpx2.Response, items: Sequence[Item]) -> Answer:
        status = response.status_code
        if status in (200, 422) and (results := _results(response, len(items))) is not None:
            return _settled(results, items)
        if status in (400, 413, 422):
            return TooMuch(self._said(response))
        return Again(self._said(response), _retry_after(response), denied=status in (401, 403))

    def _said(self, response: httpx2.Response) -> str:
        detail = str(_object(response).get("detail") or response.reason_phrase)[:500]
        if response.status_code == 401:
            return f"the gateway at {self._url} does not accept the token: {_REMEDY}"
        if response.status_code == 403:
            return f"the gateway at {self._url} does not allow this ({detail}): {_REMEDY}"
        return f"the gateway at {self._url} answered {response.status_code}: {detail}"


def _object(response: httpx2.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _results(response: httpx2.Response, count: int) -> list[dict[str, Any]] | None:
    """The result of each record; None when this is no answer of a gateway, and nothing may be taken as acknowledged."""
    results = _object(response).get("items")
    if isinstance(results, list) and len(results) == count and all(isinstance(item, dict) for item in results):
        return results
    return None


def _settled(results: list[dict[str, Any]], items: Sequence[Item]) -> Settled:
    refused = [
        Refusal(item.id, str(result.get("field", "")), str(result.get("message", "")))
        for item, result in zip(items, results, strict=True)
        if result.get("status") not in ("accepted", "duplicate")
    ]
    duplicates = sum(result.get("status") == "duplicate" for result in results)
    return Settled(len(items) - len(refused), duplicates, refused)


def _retry_after(response: httpx2.Response) -> float | None:
    """`Retry-After` in seconds (RFC 9110, section 10.2.3: a number of seconds, or a date)."""
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), _MAX_RETRY_AFTER)
    ready("email.utils")
    from email.utils import parsedate_to_datetime

    try:
        return min(max(0.0, parsedate_to_datetime(value).timestamp() - time.time()), _MAX_RETRY_AFTER)
    except ValueError:
        return None
