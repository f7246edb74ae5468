"""The environment of an agent that shall go through the proxy, whatever language it is written in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

_REPLACE_TRUST = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CODEX_CA_CERTIFICATE",
)
"""Variables that name a whole trust store: OpenSSL and most of Python, requests, curl, boto, git, codex."""
_ADD_TRUST = "NODE_EXTRA_CA_CERTS"
"""The variable whose certificates Node and Bun add to their own."""
_PROXY = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")


def proxy_url(host: str, port: int, user: str, password: str) -> str:
    """`http://user:password@host:port`, with user and password percent-encoded (RFC 3986, section 3.2.1)."""
    return f"http://{quote(user, safe='')}:{quote(password, safe='')}@{host}:{port}"


def agent_environment(
    base: Mapping[str, str], *, proxy: str, gateway: str, trajectory: str, certificate: Path, bundle: Path
) -> dict[str, str]:
    """`base` with the proxy, the certificates to trust, and where the SDK finds gateway and trajectory.

    `bundle` holds every CA the agent needs, `certificate` only the proxy's. NO_PROXY stays as it was found.
    """
    environment = dict(base)
    environment.update(dict.fromkeys(_PROXY, proxy))
    environment.update(dict.fromkeys(_REPLACE_TRUST, str(bundle)))
    # Node parses the file at every start: give it one certificate, unless it was told to trust others besides.
    environment[_ADD_TRUST] = str(bundle if base.get(_ADD_TRUST) else certificate)
    environment["NODE_USE_ENV_PROXY"] = "1"  # Node 22.21 and >= 24; others ignore the proxy altogether
    environment["STEPWELL_URL"] = gateway
    environment["STEPWELL_TRAJECTORY"] = trajectory
    return environment
