"""The capturing proxy: agents' HTTPS proxy, in a process of its own.

It decrypts the LLM hosts it is told of and passes every other host through untouched; it tees the bytes of each generation, times
them, and appends the raw exchange (credentials removed) to the spool. It never delays, alters or breaks a call, except as a route
says: whatever goes wrong in capture, the call goes through and the loss is counted.

Two loopback ports: `run_port` wants credentials, whose user name says which trajectory the calls belong to (`stepwell run` sets
them); `port` takes agents that have nothing but HTTPS_PROXY and the CA file, and those that have a base URL instead of a proxy,
`http://127.0.0.1:<port>/t/<trajectory>/openai/v1`. Trajectories are opened and ended by plain requests
to `CONTROL_HOST` through `run_port`.

Importing this package is cheap; mitmproxy (extra `proxy`, Python 3.12 or newer) is loaded by what needs it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from stepwell.errors import MissingExtra
from stepwell.proxy._config import CONTROL_HOST, ProxyConfig, Route
from stepwell.proxy._upstream_url import environment_upstream

if TYPE_CHECKING:
    from stepwell.proxy._ca import ensure_ca, look_at_ca
    from stepwell.proxy._ca_bundle import trust_bundle
    from stepwell.proxy._process import run_proxy

__all__ = [
    "CONTROL_HOST",
    "ProxyConfig",
    "Route",
    "ensure_ca",
    "environment_upstream",
    "look_at_ca",
    "run_proxy",
    "trust_bundle",
]

_EXTRA = {"certifi", "cryptography", "mitmproxy", "orjson", "brotli", "zstandard", "OpenSSL"}


def __getattr__(name: str) -> Any:
    try:
        if name in {"ensure_ca", "look_at_ca"}:
            from stepwell.proxy import _ca

            return getattr(_ca, name)
        if name == "trust_bundle":
            from stepwell.proxy import _ca_bundle

            return _ca_bundle.trust_bundle
        if name == "run_proxy":
            _check_python()
            from stepwell.proxy import _process

            return _process.run_proxy
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        raise MissingExtra(package, "proxy") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _check_python() -> None:
    if sys.version_info >= (3, 12):
        return
    error = MissingExtra("mitmproxy", "proxy")
    error.msg = (
        f"the proxy needs Python 3.12 or newer and this is {sys.version_info[0]}.{sys.version_info[1]}: "
        "install 'stepwell[proxy]' there; it runs in a process of its own, agents keep their Python"
    )
    raise error
