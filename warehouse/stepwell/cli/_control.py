"""Tell the proxy when a trajectory begins and ends. Standard library only: `stepwell run` starts once per rollout."""

from __future__ import annotations

import base64
import http.client
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepwell.errors import DeliveryError, SettingsError

_TIMEOUT = 30.0
"""Seconds for one answer: at its end the proxy first waits for calls of the trajectory that are still in flight."""
_OPEN_SECONDS = 4.0
"""A proxy that crashed is back in about three seconds; who never started one is told so soon."""
_RETRY_SECONDS = 10.0
_Errors = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Control:
    """The control endpoints of the proxy's run port, asked as any proxy is asked, with the credentials of one trajectory."""

    host: str
    port: int
    reserved: str
    """The reserved host name that the proxy answers itself."""
    trajectory: str
    token: str

    def open(self, record: Mapping[str, object]) -> dict[str, Any]:
        """The trajectory begins; what the proxy answers. One that is just being started again is waited for, a few seconds.

        Raises:
            SettingsError: no proxy listens there, or it is another installation's.
            DeliveryError: the proxy refused the record, or could not keep it.
        """
        try:
            return self._repeat("/trajectories", record, _OPEN_SECONDS, (ConnectionError,))
        except ConnectionRefusedError:
            raise SettingsError(
                f"no Stepwell proxy listens on {self.host}:{self.port}; start it with `stepwell up`, or set proxy.run_port"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise SettingsError(
                f"what listens on {self.host}:{self.port} does not answer as a Stepwell proxy ({_name(error)}); "
                "set proxy.run_port to the port that `stepwell up` uses"
            ) from error

    def end(self, record: Mapping[str, object]) -> dict[str, Any]:
        """The trajectory is over; what the proxy answers. One that is just being started again is waited for, some seconds.

        Raises:
            DeliveryError: it could not be told; the trajectory stays open.
        """
        unreachable: _Errors = (OSError, http.client.HTTPException)
        try:
            return self._repeat("/trajectories/end", record, _RETRY_SECONDS, unreachable)
        except unreachable as error:
            raise DeliveryError(f"the proxy on {self.host}:{self.port} is gone ({_name(error)})") from error

    def get(self, path: str) -> dict[str, Any]:
        """What the proxy says of itself: `/health`, `/hosts`.

        Raises:
            OSError: nothing answers there, or not as HTTP (`http.client.HTTPException`).
            SettingsError: it does not take the token.
            DeliveryError: it refused.
        """
        return self._ask("GET", path, None, {})

    def _repeat(self, path: str, record: Mapping[str, object], seconds: float, passing: _Errors) -> dict[str, Any]:
        """Post until it is answered; errors other than `passing`, and the last after `seconds`, are raised."""
        key = uuid.uuid4().hex  # a repeated request whose first answer was lost counts once
        deadline = time.monotonic() + seconds
        while True:
            try:
                headers = {"Content-Type": "application/json", "Idempotency-Key": key}
                return self._ask("POST", path, json.dumps(record).encode(), headers)
            except passing:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.25)

    def _ask(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> dict[str, Any]:
        credentials = base64.b64encode(f"{self.trajectory}:{self.token}".encode()).decode()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT)
        try:
            credited = {"Proxy-Authorization": f"Basic {credentials}", **headers}
            connection.request(method, f"http://{self.reserved}{path}", content, credited)
            answer = connection.getresponse()
            body = answer.read(1 << 20)
        finally:
            connection.close()
        self._check(answer.status, body)
        try:
            said = json.loads(body)
        except ValueError:
            raise http.client.HTTPException("its answer is no JSON") from None
        return said if isinstance(said, dict) else {}

    def _check(self, status: int, body: bytes) -> None:
        if status < 300:
            return
        if status == http.client.PROXY_AUTHENTICATION_REQUIRED:
            raise SettingsError(
                f"the proxy on {self.host}:{self.port} does not take this installation's token: "
                "was it started by another user, or with another STEPWELL_HOME?"
            )
        raise DeliveryError(f"the proxy answered {status}: {_words(body)}")


def _words(body: bytes) -> str:
    """What the proxy said: the detail of a problem (RFC 9457), else the beginning of its text."""
    text = body.decode("utf-8", "replace")
    try:
        problem = json.loads(text)
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        said = [str(problem[key]) for key in ("field", "detail", "message", "title") if problem.get(key)]
        text = ": ".join(said[:2]) or text
    return text[:500] or "nothing more"


def _name(error: Exception) -> str:
    return str(error) or type(error).__name__
