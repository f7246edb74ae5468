"""Who is calling: credentials in the proxy URL, `http://<trajectory>:<token>@127.0.0.1:<port>`.

The user name is a claim (which trajectory the calls belong to), the password is the installation's token. They arrive with the
CONNECT or with each plain request, are checked and taken away, and hold for the client's connection.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from weakref import WeakKeyDictionary

from mitmproxy import connection, http

_ID = re.compile(r"[^\x00-\x1f\x7f]{1,256}")

_NEEDED = """\
This port of the Stepwell proxy takes clients with credentials only. Start the agent with

    stepwell run -- <command>

which sets them, or point HTTPS_PROXY at the port for anonymous agents: http://{host}:{port}
"""
_BAD_NAME = (
    "The user name in the proxy URL names a trajectory: 1 to 256 characters, none of them a control character.\n"
)


class Gate:
    """Lets clients in, and remembers which trajectory each connection speaks for."""

    def __init__(self, token: str, *, host: str, port: int, run_port: int) -> None:
        self._token = token.encode()
        self._run_port = run_port
        self._needed = _NEEDED.format(host=host, port=port)
        self._known: WeakKeyDictionary[connection.Client, str | None] = WeakKeyDictionary()

    def admit(self, flow: http.HTTPFlow) -> bool:
        """Take the credentials off a request. False: it is refused, and `flow.response` says why."""
        client = flow.client_conn
        given = flow.request.headers.pop("proxy-authorization", None)
        name = self._name(given) if given is not None else None
        if name is not None:
            if name and not is_name(name):
                flow.response = refusal(407, _BAD_NAME)
                return False
            self._known[client] = name or None
            return True
        if self.wants_credentials(client) and client not in self._known:
            flow.response = refusal(407, self._needed)
            return False
        return True

    def _name(self, credentials: str) -> str | None:
        """The user name of Basic credentials; None when they are not ours."""
        scheme, _, encoded = credentials.partition(" ")
        try:
            given = base64.b64decode(encoded.strip(), validate=True)
            # From the end: a name may have a colon in it, though RFC 7617 would rather it had not.
            end = len(given) - len(self._token) - 1
            ours = scheme.lower() == "basic" and hmac.compare_digest(given[max(end, 0) :], b":" + self._token)
            return given[:end].decode() if ours else None
        except (binascii.Error, UnicodeDecodeError):
            return None

    def wants_credentials(self, client: connection.Client) -> bool:
        """Whether the client came in by the port that is for `stepwell run`."""
        return client.sockname[1] == self._run_port

    def trajectory(self, client: connection.Client) -> str | None:
        """The trajectory a client says it belongs to; None for an anonymous one."""
        return self._known.get(client)


def is_name(text: str) -> bool:
    """Whether a text can be a trajectory's name."""
    return _ID.fullmatch(text) is not None


def refusal(status: int, text: str) -> http.Response:
    """An answer of the proxy itself, in plain words."""
    headers = {"content-type": "text/plain; charset=utf-8"}
    if status == 407:
        headers["proxy-authenticate"] = 'Basic realm="stepwell"'
    return http.Response.make(status, text, headers)
