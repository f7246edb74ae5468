"""How another proxy to go through is named, in the environment or as a URL. Importable without mitmproxy, by `stepwell run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, urlsplit

_FORM = "http(s)://[user:password@]host[:port]"
_NAMED_BY = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_EXCEPTED_BY = ("no_proxy", "NO_PROXY")
_MAX = 4096


def environment_proxy(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The variable that names a proxy for HTTPS, and what it says; None when none does. Lower case first, as curl has it."""
    return _first(environ, _NAMED_BY)


def environment_no_proxy(environ: Mapping[str, str]) -> str:
    """The hosts that the environment excepts from its proxy, as NO_PROXY lists them; empty: none."""
    found = _first(environ, _EXCEPTED_BY)
    return found[1].encode("utf-8", "replace").decode() if found else ""


def environment_upstream(environ: Mapping[str, str]) -> dict[str, str]:
    """What a trajectory's proxy is asked for with when it is opened: `upstream_proxy` and `no_proxy`; empty when none is named.

    Raises:
        ValueError: what is named cannot be a proxy. Names the variable, and nothing that it says.
    """
    named = environment_proxy(environ)
    if named is None:
        return {}
    variable, url = named
    try:
        proxy_parts(url)
    except ValueError as error:
        raise ValueError(f"{variable} {error}") from None
    return {"upstream_proxy": url, "no_proxy": environment_no_proxy(environ)}


def proxy_parts(url: str) -> SplitResult:
    """The parts of a proxy's URL; without a scheme it is `http://`.

    Raises:
        ValueError: it cannot be a proxy's. Says so without a word of the URL: it may hold a password.
    """
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        url.encode()
    except ValueError:  # which would quote what stands where a port is looked for
        raise ValueError(f"is no URL of the form {_FORM}: its host or port cannot be read") from None
    if len(url) > _MAX or parts.scheme not in {"http", "https"} or not host or any(map(str.isspace, host)):
        raise ValueError(f"is no URL of the form {_FORM}")
    if "@" in parts.path + parts.query + parts.fragment:  # what looks like the host is the beginning of a password
        raise ValueError(f"is no URL of the form {_FORM}: write `/`, `?` and `#` of a password as %2F, %3F and %23")
    return parts


def _first(environ: Mapping[str, str], names: Iterable[str]) -> tuple[str, str] | None:
    return next(((name, value) for name in names if (value := environ.get(name, "").strip())), None)
