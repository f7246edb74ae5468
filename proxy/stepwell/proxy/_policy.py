"""The policy that was declared to the gateway, as the proxy sees it: the file `policy.json` in the data folder."""

from __future__ import annotations

from pathlib import Path

import orjson

from stepwell.exchange import Declared, declared_of

FILE = "policy.json"


class PolicyFile:
    """What is declared now. Asked about twice per call: the file is looked at each time and read when it was replaced.

    A file that is missing or cannot be read says nothing; nothing is raised.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / FILE
        self._seen: tuple[int, int, int] | None = None
        self._declared: Declared | None = None

    def __call__(self) -> Declared | None:
        try:
            stat = self._path.stat()
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if seen != self._seen:
                self._declared, self._seen = _read(self._path), seen
        except (OSError, ValueError):
            self._declared, self._seen = None, None
        return self._declared


def _read(path: Path) -> Declared | None:
    """The newest of its declarations, which stands last."""
    value = orjson.loads(path.read_bytes())
    history = value.get("declared") if isinstance(value, dict) else None
    newest = history[-1] if isinstance(history, list) and history else None
    if not isinstance(newest, dict):
        return None
    return declared_of([newest.get("name"), newest.get("version"), newest.get("label")])
