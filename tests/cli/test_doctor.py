"""`stepwell doctor`: before, beside and after a real stack."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import Stack, load_settings
from stepwell.cli._control import Control
from stepwell.cli._doctor_stack import decrypts, hosts, stack_findings
from stepwell.home import home_folder
from stepwell.proxy import CONTROL_HOST

Run = Callable[..., "subprocess.CompletedProcess[str]"]

for package in ("lancedb", "mitmproxy", "fastapi"):
    pytest.importorskip(package, reason="the whole stack is not installed")


@pytest.fixture(autouse=True)
def tidy(monkeypatch: pytest.MonkeyPatch) -> None:
    (home_folder() / "token").chmod(0o600)
    for name in ("PROXY__PORT", "PROXY__RUN_PORT", "GATEWAY__PORT"):
        monkeypatch.setenv(f"STEPWELL_{name}", "1")  # nobody listens on it
    monkeypatch.setenv("STEPWELL_PROXY__PORT", "2")


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    said = json.loads(done.stdout)
    assert said["ok"] == (done.returncode == 0)
    return {one["check"]: one for one in said["checks"]}


def test_where_nothing_runs_nothing_is_broken_and_nothing_is_made(stepwell: Run, place: Path) -> None:
    done = stepwell("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(line.startswith(("ok ", "warn ")) for line in lines)
    assert any("nothing runs" in line and "→ start `stepwell up`" in line for line in lines)
    assert list(place.iterdir()) == [] and not (home_folder() / "ca").exists()


def test_settings_that_cannot_be_read_are_the_first_thing(stepwell: Run, place: Path) -> None:
    (place / "stepwell.toml").write_text("[proxy]\nprot = 1\n")
    done = stepwell("doctor", "--json")
    assert done.returncode == 1
    assert list(checks(done)) == ["settings"]
    assert "prot" in checks(done)["settings"]["message"]


def test_what_is_broken_makes_the_exit_code(stepwell: Run) -> None:
    (home_folder() / "token").chmod(0o644)
    done = stepwell("doctor", "--json")
    assert done.returncode == 1
    assert checks(done)["token"]["status"] == "bad"
    assert checks(done)["token"]["do"].startswith("chmod 600 ")


def test_a_running_stack_is_well(stepwell: Run, place: Path) -> None:
    settings = load_settings(proxy={"port": 0, "run_port": 0}, gateway={"port": 0})
    with Stack(settings) as stack:
        stack.wait_ready()
        found = checks(stepwell("doctor", "--json", env=stack.environment()))
        well = (
            "proxy",
            "proxy.port",
            "gateway",
            "ingest",
            "decryption",
            "hosts",
            "certificate",
            "warehouse",
            "quarantine",
        )
        assert {name: found[name]["status"] for name in well} == dict.fromkeys(well, "ok")
        assert "token" in found and "token-of-this-test" not in json.dumps(found)
        assert "names and what is below them" in found["certificate"]["message"]
        # With the settings of somebody who does not know the ports.
        lost = checks(stepwell("doctor", "--json"))
        assert lost["stack"]["status"] == "bad" and "other ports" in lost["stack"]["message"]
        _look_closer(stack)
    assert checks(stepwell("doctor", "--json"))["stack"]["status"] == "warn"


def _look_closer(stack: Stack) -> None:
    """What a healthy stack does not show: a host that is not decrypted, one that looks like an LLM's, an agent without trust."""
    control = Control("127.0.0.1", stack.ports.run, CONTROL_HOST, "t", "token-of-this-test")
    proxy = stack.settings.proxy.model_copy(update={"port": stack.ports.proxy, "run_port": stack.ports.run})
    settings = stack.settings.model_copy(update={"proxy": proxy.model_copy(update={"hosts": ("llm.localhost:9",)})})
    assert decrypts(settings, control).status == "bad"
    assert (
        "no host is decrypted"
        in decrypts(settings.model_copy(update={"proxy": proxy.model_copy(update={"hosts": ()})}), control).message
    )
    before = ssl.create_default_context
    try:
        ssl.create_default_context = lambda *_, **__: before()  # an agent that was not given the certificate
        refused = decrypts(settings.model_copy(update={"proxy": proxy}), control)
    finally:
        ssl.create_default_context = before
    assert refused.status == "bad" and "is not trusted" in refused.message
    found = {finding.check: finding for finding in hosts(control)}
    assert found["hosts"].status == "warn" and 'proxy.routes = [{host = "llm.localhost:9"}]' in found["hosts"].do
    assert found["trust"].status == "warn" and "api.openai.com" in found["trust"].message


def test_ports_of_other_programs(fake_proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in answers no GET, as some other web server would not."""
    monkeypatch.setenv("STEPWELL_GATEWAY__PORT", str(fake_proxy.port))
    found = {finding.check: finding for finding in stack_findings(load_settings())}
    assert (found["proxy"].status, found["gateway"].status) == ("bad", "bad")
    assert "is no Stepwell proxy" in found["proxy"].message
    assert "taken by another program" in found["gateway"].message and "gateway.port" in found["gateway"].do
    assert found["ingest"].status == "bad"  # some of it runs, so that what is missing is missed
