"""Which hosts are meant: names, globs, and `host:port`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

HostTest = Callable[[str, int], bool]


def host_test(patterns: Iterable[str]) -> HostTest:
    """A test of host and port against all `patterns`; remembers its answers, since agents call the same few hosts."""
    compiled = [re.compile(_expression(pattern)) for pattern in patterns]

    @lru_cache(maxsize=4096)
    def test(host: str, port: int) -> bool:
        name = host.lower().rstrip(".")
        forms = (f"[{name}]", f"[{name}]:{port}") if ":" in name else (name, f"{name}:{port}")
        return any(pattern.fullmatch(form) for pattern in compiled for form in forms)

    return test


def _expression(pattern: str) -> str:
    """An IPv6 address stands in brackets, which a glob would take for a set of characters."""
    return re.escape(pattern) if pattern.startswith("[") else fnmatch.translate(pattern)
