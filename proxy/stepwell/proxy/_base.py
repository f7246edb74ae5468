"""Base URLs: agents that are given an address instead of a proxy, `http://127.0.0.1:<port>/t/<trajectory>/openai/v1`.

The port for anonymous agents answers such requests too: what follows the provider's name goes on to the provider as it is. Without
`/t/<trajectory>` the caller stays anonymous. Whoever asks for this machine by its loopback address needs nothing else; by any other
name (from a container, or a page in a browser that had a name point here) the token is needed, `/k/<token>/t/…`.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from mitmproxy import connection, http

from stepwell.proxy._auth import Gate, is_name, refusal
from stepwell.proxy._config import CONTROL_HOST
from stepwell.proxy._loops import is_local
from stepwell.proxy._metrics import PATH as METRICS
from stepwell.proxy._route import aim

ORIGIN = "origin.stepwell.invalid"
"""Host of a request that names none: one made to this server, and not by way of this proxy."""

_PATH = re.compile(
    r"(?:/k/(?P<key>[^/?]+))?(?:/t/(?P<trajectory>[^/?]+))?(?:/(?P<provider>[A-Za-z0-9._-]+))?(?P<rest>[/?].*)?",
    re.DOTALL,
)
_FORM = """\
This is the Stepwell proxy. As a base URL, give agents

    http://{host}:{port}/t/<trajectory>/<provider>/…

(or without /t/<trajectory>), where <provider> is one of {providers}; more can be set under proxy.base_urls.
For instance the base URL of OpenAI's client is http://{host}:{port}/t/my-run/openai/v1
"""
_KEY_NEEDED = "From there the Stepwell proxy takes base URLs with the installation's token only: /k/<token>/t/<trajectory>/<provider>/…\n"
_BAD_NAME = "What follows /t/ names a trajectory: 1 to 256 characters, none of them a control character.\n"


@dataclass(frozen=True, slots=True)
class Entered:
    """A request that came by a base URL, and has been turned into one to the provider."""

    trajectory_id: str | None


class BaseUrls:
    """Turns requests to the proxy itself into requests to a provider."""

    def __init__(self, urls: Mapping[str, str], gate: Gate, token: str, *, host: str, port: int) -> None:
        self._urls = dict(urls)
        self._gate = gate
        self._token = token.encode()
        shown = f"[{host}]" if ":" in host else host
        self._form = _FORM.format(host=shown, port=port, providers=", ".join(sorted(self._urls)))

    def enter(self, flow: http.HTTPFlow, *, asks_for_us: bool) -> Entered | None:
        """Redirect a request to the provider it names. None: it is none of these, or `flow.response` says why it is refused.

        One for `/metrics` is redirected to the host that the proxy answers itself.

        `asks_for_us`: it came as to a proxy (the agent has both), and its destination is the proxy.
        """
        request = flow.request
        direct = request.host == ORIGIN
        if not (direct or asks_for_us):
            return None
        found = _PATH.fullmatch(request.path)
        url = self._urls.get((found["provider"] or "").lower()) if found else None
        if found is not None and url is None and direct and _asks_for_metrics(request, found):
            if self._may_enter(flow.client_conn, request, found["key"], direct=direct):
                request.host, request.path = CONTROL_HOST, METRICS
            else:
                flow.response = refusal(403, _KEY_NEEDED)
            return None
        if found is None or url is None:
            if direct or (found is not None and (found["key"] or found["trajectory"])):
                flow.response = refusal(404, self._form)
            return None
        if not self._may_enter(flow.client_conn, request, found["key"], direct=direct):
            flow.response = refusal(403, _KEY_NEEDED)
            return None
        name = unquote(found["trajectory"] or "")
        if name and not is_name(name):
            flow.response = refusal(400, _BAD_NAME)
            return None
        prefix, rest = aim(request, url) or "", found["rest"] or ""
        request.path = prefix.rstrip("/") + (rest if rest.startswith("/") else "/" + rest)
        return Entered(name or None)

    def _may_enter(self, client: connection.Client, request: http.Request, key: str | None, *, direct: bool) -> bool:
        if key is not None:
            return hmac.compare_digest(unquote(key).encode(errors="replace"), self._token)
        if self._gate.wants_credentials(client):
            return True  # and has had them, or it would not have come here
        return is_local(client.sockname[0]) and (not direct or _names_local(request.host_header))


def _asks_for_metrics(request: http.Request, found: re.Match[str]) -> bool:
    rest = (found["rest"] or "").partition("?")[0]
    return request.method == "GET" and f"/{found['provider']}{rest}" == METRICS and not found["trajectory"]


def _names_local(header: str | None) -> bool:
    """Whether a Host header is a loopback name. What sends none (HTTP/1.0) is no browser."""
    try:
        return header is None or is_local(urlsplit(f"//{header}").hostname or "")
    except ValueError:
        return False
