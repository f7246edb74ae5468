"""The environment's proxy is handed on when the trajectory is opened."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli._run_upstream import upstream_of
from stepwell.errors import SettingsError
from stepwell.proxy import ProxyConfig

Run = Callable[..., "subprocess.CompletedProcess[str]"]

URL = "http://u:pa55@office:3128"


def test_it_is_said_when_the_trajectory_opens_and_not_when_it_ends(stepwell: Run, fake_proxy: Any) -> None:
    done = stepwell("run", "--", "true", env={**os.environ, "HTTPS_PROXY": URL, "NO_PROXY": "near.example"})
    assert (done.returncode, done.stderr) == (0, "")
    (_, opened), (_, ended) = fake_proxy.asked
    assert (opened["upstream_proxy"], opened["no_proxy"]) == (URL, "near.example")
    assert not {"upstream_proxy", "no_proxy"} & ended.keys()


def test_without_one_nothing_is_said(stepwell: Run, fake_proxy: Any) -> None:
    stepwell("run", "--", "true")
    assert not {"upstream_proxy", "no_proxy"} & fake_proxy.asked[0][1].keys()


def test_a_bad_one_is_one_clear_line_and_nothing_is_started(stepwell: Run, fake_proxy: Any, place: Path) -> None:
    done = stepwell("run", "--", "touch", "started", env={**os.environ, "HTTPS_PROXY": "socks5://u:pa55@office:1080"})
    assert done.returncode == 2
    assert done.stderr.startswith("stepwell: HTTPS_PROXY is no URL of the form http(s)://")
    assert len(done.stderr.splitlines()) == 1 and "pa55" not in done.stderr
    assert not fake_proxy.asked and not (place / "started").exists()


@pytest.mark.parametrize("setting", ["", "http://b:1"])
def test_a_setting_counts_for_more(setting: str) -> None:
    for url in (URL, "socks5://office"):
        assert upstream_of({"HTTPS_PROXY": url}, ProxyConfig(upstream_proxy=setting)) == {}
    with pytest.raises(SettingsError, match=r"proxy\.upstream_proxy"):
        upstream_of({"HTTPS_PROXY": "socks5://office"}, ProxyConfig())
