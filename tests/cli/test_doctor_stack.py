"""What the doctor makes of what a running proxy says; with a real stack, `test_doctor` asks it."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.cli import load_settings
from stepwell.cli._control import Control
from stepwell.cli._doctor_stack import _about_proxy, hosts


class Says(Control):
    """A proxy that says this of the hosts it saw."""

    def __init__(self, said: dict[str, Any]) -> None:
        super().__init__("127.0.0.1", 1, "reserved", "t", "token")
        object.__setattr__(self, "said", said)

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/hosts"
        found: dict[str, Any] = self.said  # type: ignore[attr-defined]
        return found


@pytest.mark.parametrize(
    ("health", "environ", "found"),
    [
        ({"lost": 0, "upstream_proxy": None}, "", []),
        ({"lost": 3, "upstream_proxy": None}, "", [("losses", "warn", "3 calls")]),
        ({"upstream_proxy": None}, "http://corp:3128", [("upstream", "warn", "corp:3128")]),
        ({"upstream_proxy": "http://corp:3128"}, "http://corp:3128", [("upstream", "ok", "corp:3128")]),
    ],
)
def test_what_the_proxy_says_of_itself(
    monkeypatch: pytest.MonkeyPatch, health: dict[str, Any], environ: str, found: list[tuple[str, str, str]]
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", environ)
    said = list(_about_proxy(health, load_settings()))
    assert [(one.check, one.status) for one in said] == [(check, status) for check, status, _ in found]
    assert all(words in one.message for one, (_, _, words) in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("api.example-llm.com:443", True),
        ("vllm.internal:8000", True),
        ("api.x.ai:443", True),
        ("bedrock-runtime.eu-west-1.amazonaws.com:443", True),
        ("pypi.org:443", False),
        ("registry.example.com:443", False),
        ("api.github.com:443", False),
    ],
)
def test_which_hosts_look_like_llm_endpoints(name: str, alike: bool) -> None:
    (finding,) = hosts(Says({"passed": {"hosts": {name: 1}}}))
    assert (finding.status, name in finding.do) == (("warn", True) if alike else ("ok", False))


def test_many_hosts_are_not_all_named() -> None:
    names = {f"llm-{number}.example:443": 1 for number in range(50)}
    passed, distrusted = hosts(Says({"passed": {"hosts": names}, "distrusted": {"hosts": names}}))
    assert passed.message.endswith("and 45 more") and passed.do.count("{host = ") == 5
    assert distrusted.message.count("llm-") == 5


@pytest.mark.parametrize("said", [{}, {"passed": [], "distrusted": {"hosts": 5}}])
def test_a_proxy_of_another_version_is_no_trouble(said: dict[str, Any]) -> None:
    (finding,) = hosts(Says(said))
    assert finding.message.startswith("0 hosts")
