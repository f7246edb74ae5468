"""Why no call came: what `stepwell run` says, and what it sees of the agent's programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli._bypass import Programs, excepted, node_gap, node_version, unreached, without_upstream
from stepwell.proxy import ProxyConfig

Run = Callable[..., "subprocess.CompletedProcess[str]"]
PROXY = ProxyConfig(run_port=1111, port=2222)


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `node` of version 20.1.0, first on PATH."""
    path = program(tmp_path / "bin" / "node", "echo v20.1.0")
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return path


def test_the_version_is_the_programs_own_word(node: Path, tmp_path: Path) -> None:
    assert node_version(node) == "20.1.0"
    assert node_version(program(tmp_path / "other", "echo hello")) is None
    assert node_version(program(tmp_path / "nothing", "exit 1")) is None
    assert node_version(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("version", "gap"),
    [
        ("20.30.0", "ignores"),
        ("22.20.9", "ignores"),
        ("22.21.0", None),
        ("22.100.0", None),
        ("23.99.9", "ignores"),
        ("24.0.0", "but not in https"),
        ("24.4.1", "but not in https"),
        ("24.5.0", None),
        ("25.0.0", None),
        ("100.0.0", None),
    ],
)
def test_which_nodes_go_round(version: str, gap: str | None) -> None:
    found = node_gap(version)
    assert found is None if gap is None else gap in (found or "")


@pytest.mark.parametrize("first", ["#!/usr/bin/env node", "#!/usr/bin/env -S node --no-warnings", "#!{node}"])
def test_a_script_is_known_by_its_first_line(node: Path, tmp_path: Path, first: str) -> None:
    script = tmp_path / "agent"
    script.write_text(f"{first.format(node=node)}\nconsole.log(1)\n")
    script.chmod(0o755)
    assert Programs(str(script)).old_nodes() == [f"Node 20.1.0 ({node}) ignores HTTPS_PROXY"]
    assert Programs("node").old_nodes() == [f"Node 20.1.0 ({node}) ignores HTTPS_PROXY"]
    assert Programs("no-such-agent").old_nodes() == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what a process started")
def test_what_the_agent_starts_is_seen() -> None:
    code = "import subprocess; subprocess.run(['sleep', '60'])"
    with subprocess.Popen([sys.executable, "-S", "-c", code]) as process:
        programs = Programs("true")
        while not any(
            "sleep" in path.name or "busybox" in path.name or "coreutils" in path.name for path in programs.seen
        ):
            programs.look(process.pid)
            assert process.poll() is None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), 9)


@pytest.mark.parametrize(
    ("no_proxy", "found"),
    [
        ("", []),
        ("localhost,127.0.0.1,.internal", []),
        ("internal, .openai.com", [".openai.com"]),
        ("api.openai.com:443", ["api.openai.com:443"]),
        ("penai.com", []),
        ("*", ["*"]),
        ("*.azure.com", ["*.azure.com"]),
    ],
)
def test_what_no_proxy_keeps_away(no_proxy: str, found: list[str]) -> None:
    assert excepted({"NO_PROXY": no_proxy}, ["api.openai.com", "*.openai.azure.com"]) == found


def test_what_is_said_of_a_trajectory_without_calls(node: Path) -> None:
    programs = Programs("node")
    assert unreached({"calls": 1}, programs, {}, PROXY) is None
    assert unreached({"calls": None}, programs, {}, PROXY) is None
    assert unreached({}, programs, {}, PROXY) is None
    said = unreached({"calls": 0}, programs, {"no_proxy": "openai.com"}, PROXY) or ""
    assert f"Node 20.1.0 ({node}) ignores HTTPS_PROXY" in said and "NO_PROXY=openai.com" in said
    usual = unreached({"calls": 0}, Programs("true"), {}, PROXY) or ""
    assert all(
        word in usual for word in ("no LLM call came through the proxy", "Node", "aiohttp", "Docker", "proxy.hosts")
    )


@pytest.mark.parametrize(
    ("url", "answer", "said"),
    [
        ("http://user:pa55@office:3128", {"upstream_proxy": None}, "office:3128"),
        ("http://office:3128", {"upstream_proxy": "office:3128"}, None),
        ("http://office:3128", {}, None),
        ("http://t:token@127.0.0.1:1111", {"upstream_proxy": None}, None),
        ("http://localhost:2222", {"upstream_proxy": None}, None),
        ("http://127.0.0.1:3333", {"upstream_proxy": None}, "127.0.0.1:3333"),
        ("", {"upstream_proxy": None}, None),
        ("http://[broken:pa55", {"upstream_proxy": None}, "HTTPS_PROXY is no URL"),
        ("socks5://u:pa55@office", {"upstream_proxy": None}, "HTTPS_PROXY is no URL"),
    ],
)
def test_another_proxy_that_is_not_used(url: str, answer: dict[str, Any], said: str | None) -> None:
    words = without_upstream({"HTTPS_PROXY": url}, answer, PROXY)
    assert (words is None) == (said is None)
    assert (said or "") in (words or "") and "pa55" not in (words or "")


def test_a_setting_counts_for_more_than_the_environments_proxy() -> None:
    setting = PROXY.model_copy(update={"upstream_proxy": ""})
    assert without_upstream({"HTTPS_PROXY": "http://office:3128"}, {"upstream_proxy": None}, setting) is None


def test_run_says_so_and_does_not_fail(stepwell: Run, fake_proxy: Any) -> None:
    fake_proxy.answers = {"end": {"calls": 0}}
    done = stepwell("run", "--", sys.executable, "-S", "-c", "raise SystemExit(3)")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("stepwell: no LLM call came through the proxy: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what a process started")
def test_a_node_that_the_agent_starts_is_named(stepwell: Run, fake_proxy: Any) -> None:
    fake_proxy.answers = {"end": {"calls": 0}}
    real = Path("/usr/bin/node")
    if not real.exists() or node_gap(node_version(real) or "99.0.0") != "ignores HTTPS_PROXY":
        pytest.skip("no Node that ignores HTTPS_PROXY here")
    done = stepwell("run", "--", "sh", "-c", f"{real} -e 'setTimeout(() => 0, 900)'; true")
    assert f"({real.resolve()}) ignores HTTPS_PROXY" in done.stderr
