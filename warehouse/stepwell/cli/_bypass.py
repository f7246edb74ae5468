"""Why an agent's calls may not have come through the proxy: what `stepwell run` can tell from outside.

Looked at while the agent runs: which programs it and its descendants are (Linux: `/proc`). Whether a Python program uses aiohttp
cannot be seen, so that is only named as a possibility.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from stepwell.proxy import ProxyConfig

_NODE = re.compile(r"node(js)?(-?\d[\d.]*)?")
NODE_ENOUGH = "22.21 or 24.5, or newer"
"""The Nodes that heed HTTPS_PROXY, with NODE_USE_ENV_PROXY=1, in `fetch` and in `https`: of 23 there is none."""
_MOST = 64
"""Processes looked at; an agent that starts thousands is not followed into all."""


class Programs:
    """The executables that were seen: the command itself, and what it starts."""

    def __init__(self, command: str) -> None:
        self.seen: dict[Path, None] = {}
        found = shutil.which(command)
        if found is not None:
            self._add(Path(found))
            self._add_interpreter(Path(found))

    def look(self, pid: int) -> None:
        """See what runs now. Never raises: processes come and go."""
        for one in _family(pid):
            try:
                self._add(Path(f"/proc/{one}/exe").readlink())
            except OSError:
                continue

    def old_nodes(self) -> list[str]:
        """`Node 20.1.0 (/usr/bin/node) ignores HTTPS_PROXY` for each Node seen whose calls go round the proxy."""
        nodes = [(path, node_version(path)) for path in self.seen if _NODE.fullmatch(path.name)]
        return [f"Node {version} ({path}) {gap}" for path, version in nodes if version and (gap := node_gap(version))]

    def _add(self, path: Path) -> None:
        if len(self.seen) < _MOST:
            try:
                self.seen[path.resolve()] = None
            except OSError:
                self.seen[path] = None

    def _add_interpreter(self, script: Path) -> None:
        """That of a first line `#!/usr/bin/env node`."""
        try:
            with script.open("rb") as file:
                first = file.readline(256)
        except OSError:
            return
        if first.startswith(b"#!"):
            words = [word for word in first[2:].decode(errors="replace").split() if not word.startswith("-")]
            name = words[1] if len(words) > 1 and words[0].endswith("/env") else words[0] if words else ""
            if name and (found := shutil.which(name)) is not None:
                self._add(Path(found))


def _family(pid: int) -> Iterable[int]:
    """A process and its descendants, as far as Linux tells."""
    waiting, known = [pid], 0
    while waiting and known < _MOST:
        one = waiting.pop()
        known += 1
        yield one
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting.extend(map(int, (task / "children").read_text().split()))
        except (OSError, ValueError):
            continue


def node_version(path: Path) -> str | None:
    """`20.1.0`, in the program's own words; None when it does not say."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NODE_")}
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=5, env=environment, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    found = re.fullmatch(r"v(\d+\.\d+\.\d+)\S*", done.stdout.strip())
    return found[1] if found else None


def node_gap(version: str) -> str | None:
    """How this Node's calls go round the proxy, whatever is set; None when they do not. Found by running each."""
    major, minor, *_ = map(int, version.split("."))
    if (major, minor) < (22, 21) or major == 23:
        return "ignores HTTPS_PROXY"
    return "heeds HTTPS_PROXY in fetch, but not in https" if (24, 0) <= (major, minor) < (24, 5) else None


def excepted(environ: Mapping[str, str], hosts: Iterable[str]) -> list[str]:
    """The items of NO_PROXY that keep a host of the list (names and globs) from the proxy."""
    names = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    plain = [re.sub(r":\d+$", "", host).replace("*", "").strip(".-") for host in hosts]
    found = []
    for item in (item.strip() for item in names.split(",")):
        name = re.sub(r":\d+$", "", item.lower()).removeprefix("*").strip(".")
        if item == "*" or (name and any(host == name or host.endswith(f".{name}") for host in plain)):
            found.append(item)
    return found


def unreached(
    ended: Mapping[str, Any], programs: Programs, environ: Mapping[str, str], proxy: ProxyConfig
) -> str | None:
    """What to say of a trajectory without any call; None when there was one, or the proxy does not know."""
    if ended.get("calls") != 0:
        return None
    causes = [f"{node}: use Node {NODE_ENOUGH}" for node in programs.old_nodes()]
    if items := excepted(environ, [*proxy.hosts, *(route.host for route in proxy.routes)]):
        causes.append(f"NO_PROXY={','.join(items)} keeps calls from the proxy")
    usual = (
        "an agent that makes none, Node before 22.21, aiohttp without trust_env=True, "
        "a program in Docker or on another machine, or a host that is not under proxy.hosts"
    )
    why = "; ".join(causes) if causes else f"the usual reasons are {usual}"
    return f"no LLM call came through the proxy: {why} (`stepwell doctor` looks further)"


def without_upstream(environ: Mapping[str, str], health: Mapping[str, Any], proxy: ProxyConfig) -> str | None:
    """What to say when the environment names another proxy, which the running one does not use by itself; None when all is well."""
    if proxy.upstream_proxy is not None or health.get("upstream_proxy", "unknown") is not None:
        return None
    from stepwell.proxy import environment_upstream

    try:
        url = environment_upstream(environ).get("upstream_proxy", "")
    except ValueError as error:
        return f"{error}: `stepwell run` starts nothing with it"
    parts = urlsplit(url if "://" in url else f"http://{url}")
    ours = parts.port in (proxy.port, proxy.run_port) and parts.hostname in (
        proxy.host,
        "localhost",
        "127.0.0.1",
        "::1",
    )
    if not url or ours:
        return None
    where = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
    return (
        f"HTTPS_PROXY ({where}) is used for what `stepwell run` starts, and not for other agents; "
        "for these, start `stepwell up` with that HTTPS_PROXY, or set proxy.upstream_proxy"
    )
