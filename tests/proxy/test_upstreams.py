"""Trajectories with proxies of their own, side by side."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from stepwell.proxy import CONTROL_HOST, _upstreams
from stepwell.proxy._upstream import UpstreamProxy
from stepwell.proxy._upstreams import Upstreams

from .conftest import REPLY, TOKEN, RunningProxy, StartProxy, StartUpstream, make_ca
from .office import Tunnels, basic, tunnels

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"
CONTROL = f"http://{CONTROL_HOST}"


@pytest.fixture(scope="module")
def upstream_ca(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """As the others', for names that only the other proxies know the way to."""
    return make_ca(tmp_path_factory.mktemp("offices-ca"), "localhost", "api.far.example", "pages.far.example")


@pytest.fixture
def offices() -> Iterator[dict[str, Tunnels]]:
    """Three proxies, each with a password of its own."""
    with tunnels(None, credentials("a")) as a, tunnels(None, credentials("b")) as b, tunnels(None, "") as own:
        yield {"a": a, "b": b, "own": own}


def credentials(name: str) -> str:
    return basic(name, f"SECRET-of-{name}")


def url_of(name: str, office: Tunnels) -> str:
    return f"http://{name}:SECRET-of-{name}@127.0.0.1:{office.port}"


def begin(proxy: RunningProxy, trajectory: str, url: str | None, no_proxy: str = "") -> Any:
    body = {"trajectory_id": trajectory, "upstream_proxy": url, "no_proxy": no_proxy}
    client = proxy.client(proxy.url(quote(trajectory, safe="")))
    return client.post(f"{CONTROL}/trajectories", json=body).raise_for_status().json()


def end(proxy: RunningProxy, trajectory: str) -> None:
    body = {"trajectory_id": trajectory, "state": "completed"}
    client = proxy.client(proxy.url(quote(trajectory, safe="")))
    client.post(f"{CONTROL}/trajectories/end", json=body).raise_for_status()


def test_each_goes_its_own_way_and_the_passwords_stay_in_memory(
    start_proxy: StartProxy, start_upstream: StartUpstream, offices: dict[str, Tunnels]
) -> None:
    upstream = start_upstream()
    far = f"https://api.far.example:{upstream.port}"
    own = f"http://127.0.0.1:{offices['own'].port}"
    proxy = start_proxy("api.far.example", base_urls={"far": far}, upstream_proxy=own)
    addresses = {name: f"127.0.0.1:{office.port}" for name, office in offices.items()}
    for name in "ab":
        assert begin(proxy, f"t-{name}", url_of(name, offices[name]))["upstream_proxy"] == addresses[name]
    assert begin(proxy, "t-c", None)["upstream_proxy"] == addresses["own"]
    health = proxy.client(proxy.url("t-a")).get(f"{CONTROL}/health")
    assert health.json()["upstream_proxy"] == addresses["own"] and "SECRET" not in health.text

    for name in ("t-a", "t-b", "t-c", "never-opened"):
        assert proxy.client(proxy.url(name)).post(f"{far}{PATH}", json=ASK).json() == REPLY
    assert proxy.client().post(f"{far}{PATH}", json=ASK).json() == REPLY
    with httpx2.Client(base_url=proxy.anonymous, trust_env=False, timeout=30) as based:  # all on one connection
        for path in ("/t/t-a/far", "/t/t-b/far", "/far"):
            assert based.post(f"{path}{PATH}", json=ASK).json() == REPLY
    asked = {name: office.asked for name, office in offices.items()}
    tunnel = f"CONNECT api.far.example:{upstream.port} HTTP/1.1"
    assert asked["a"] == [(tunnel, credentials("a"))] * 2
    assert asked["b"] == [(tunnel, credentials("b"))] * 2
    assert asked["own"] == [(tunnel, "")] * 4

    end(proxy, "t-a")
    assert proxy.client(proxy.url("t-a")).post(f"{far}{PATH}", json=ASK).json() == REPLY
    assert begin(proxy, "t-b", None)["upstream_proxy"] == addresses["own"]
    assert [len(asked[name]) for name in ("a", "b", "own")] == [2, 2, 5]

    assert len(proxy.exchanges(upstream, 9)) == 9
    proxy.stop()
    assert b"SECRET" not in proxy.spool_bytes()
    for name in "ab":
        assert credentials(name).removeprefix("Basic ").encode() not in proxy.spool_bytes()


@pytest.mark.parametrize("tls", [True, False])
def test_a_connection_of_one_trajectory_is_not_used_for_another(
    start_proxy: StartProxy, start_upstream: StartUpstream, tls: bool
) -> None:
    upstream = start_upstream(tls=tls)
    far = f"{upstream.scheme}://api.far.example:{upstream.port}"
    with tunnels(None, credentials("a")) as office:
        proxy = start_proxy("api.far.example", base_urls={"far": far})
        for trajectory, name in (("one", "a"), ("two", "a"), ("three", "wrong")):
            begin(proxy, trajectory, url_of(name, office))
        with httpx2.Client(base_url=proxy.anonymous, trust_env=False, timeout=30) as client:
            for trajectory in ("one", "one", "two", "one"):
                assert client.post(f"/t/{trajectory}/far{PATH}", json=ASK).json() == REPLY
            assert office.connections == 2
            refused = client.post(f"/t/three/far{PATH}", json=ASK)
        assert refused.status_code == 502 and "proxy-authenticate" not in refused.headers
        assert office.connections == 3
        assert len(upstream.seen) == 4
        assert all("proxy-authorization" not in headers for _, _, headers, _ in upstream.seen)
        proxy.stop()
        assert b"SECRET" not in proxy.spool_bytes()


def test_a_plain_call_names_the_whole_url_to_the_other_proxy(
    start_proxy: StartProxy, start_upstream: StartUpstream, offices: dict[str, Tunnels]
) -> None:
    upstream = start_upstream(tls=False)
    far = f"http://api.far.example:{upstream.port}"
    proxy = start_proxy("api.far.example")
    begin(proxy, "t", url_of("a", offices["a"]))
    assert proxy.client(proxy.url("t")).post(f"{far}{PATH}?x=1", json=ASK).json() == REPLY
    assert offices["a"].asked == [(f"POST {far}{PATH}?x=1 HTTP/1.1", credentials("a"))]
    (exchange,) = proxy.exchanges(upstream)
    assert exchange.request.url == f"{far}{PATH}" and exchange.trajectory_id == "t"
    assert not any(name.lower() == "proxy-authorization" for name, _ in exchange.request.headers)
    proxy.stop()


def test_a_connection_that_is_passed_undecrypted_goes_the_same_way(
    start_proxy: StartProxy, start_upstream: StartUpstream, offices: dict[str, Tunnels]
) -> None:
    upstream = start_upstream()
    proxy = start_proxy("api.far.example")
    begin(proxy, "t", url_of("a", offices["a"]), "near.example")
    own = ssl.create_default_context(cafile=str(proxy.trust))
    client = proxy.client(proxy.url("t"), verify=own)
    assert client.get(f"https://pages.far.example:{upstream.port}/").json() == REPLY
    assert offices["a"].asked == [(f"CONNECT pages.far.example:{upstream.port} HTTP/1.1", credentials("a"))]
    with pytest.raises(httpx2.HTTPError):  # there is no such host, and the office is not asked for it
        client.get(f"https://a.near.example:{upstream.port}/")
    assert len(offices["a"].asked) == 1
    proxy.stop()


def test_a_run_within_a_run_goes_where_the_outer_one_goes(
    start_proxy: StartProxy, start_upstream: StartUpstream, offices: dict[str, Tunnels]
) -> None:
    upstream = start_upstream()
    far = f"https://api.far.example:{upstream.port}"
    proxy = start_proxy("api.far.example")
    begin(proxy, "outer/1", url_of("a", offices["a"]))
    address = f"127.0.0.1:{offices['a'].port}"
    assert begin(proxy, "inner", proxy.url("outer%2F1"))["upstream_proxy"] == address
    assert begin(proxy, "outer/1", proxy.url("outer%2F1"))["upstream_proxy"] == address  # by the same name
    for url in (proxy.anonymous, proxy.url("nobody"), f"localhost:{proxy.ports['port']}"):
        assert begin(proxy, "loop", url)["upstream_proxy"] is None
    end(proxy, "outer/1")
    assert proxy.client(proxy.url("inner")).post(f"{far}{PATH}", json=ASK).json() == REPLY
    assert len(offices["a"].asked) == 1
    proxy.stop()


def test_a_bad_one_is_refused_by_field_and_without_its_words(start_proxy: StartProxy) -> None:
    proxy = start_proxy()
    bad: list[tuple[str, object]] = [
        ("upstream_proxy", "socks5://x:SECRET@a:1"),
        ("upstream_proxy", "http://x:SECRET@a:99999"),
        ("upstream_proxy", "http://x:12/SECRET@a:1"),
        ("upstream_proxy", ["http://x:SECRET@a:1"]),
        ("upstream_proxy", "http://x:SECRET@a:1" + "x" * 70_000),
        ("no_proxy", {"SECRET": 1}),
    ]
    for field, given in bad:
        body = {"trajectory_id": "x", field: given}
        answer = proxy.client(proxy.url("x")).post(f"{CONTROL}/trajectories", json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)
        assert "SECRET" not in answer.text and answer.json()["detail"].startswith(field)
        at_the_end = proxy.client(proxy.url("x")).post(f"{CONTROL}/trajectories/end", json={**body, "state": "failed"})
        assert at_the_end.status_code == 422 and "SECRET" not in at_the_end.text
    assert proxy.records() == []
    assert b"SECRET" not in proxy.spool_bytes()


def test_too_many_and_the_one_opened_first_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_upstreams, "_MAX_KNOWN", 2)
    known = Upstreams(UpstreamProxy("http://own:1"))
    for name in ("one", "two", "one", "three"):  # the second is now the one opened first
        known.assign(name, known.read(f"http://u:SECRET@{name}:3128", ""))
    found = {name: known.address(name) for name in ("one", "two", "three", None)}
    assert found == {"one": "one:3128", "two": "own:1", "three": "three:3128", None: "own:1"}
    assert "more than 2" in caplog.text and "SECRET" not in caplog.text
    known.forget("one")
    known.forget("never there")
    assert known.address("one") == "own:1"


def test_what_no_proxy_excepts_goes_directly_and_not_through_the_proxys_own() -> None:
    known = Upstreams(UpstreamProxy("http://own:1", "elsewhere.example"))
    known.assign("t", known.read("http://a:3128", "near.example"))
    assert known.through("t", "x.near.example", 443) is None
    far = known.through("t", "elsewhere.example", 443)
    assert far is not None and far.address == ("a", 3128)
    assert known.through(None, "elsewhere.example", 443) is None


AGENT = """
import json, sys, urllib.request
asked = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), {"content-type": "application/json"})
print(json.load(urllib.request.urlopen(asked, timeout=30))["id"])
"""


def test_stepwell_run_hands_its_environments_on(
    start_proxy: StartProxy,
    start_upstream: StartUpstream,
    offices: dict[str, Tunnels],
    tmp_path: Path,
) -> None:
    upstream = start_upstream()
    proxy = start_proxy("api.far.example")
    (proxy.home / "token").write_text(TOKEN)
    (proxy.home / "token").chmod(0o600)
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    kept |= {"STEPWELL_HOME": str(proxy.home), "STEPWELL_PROXY__RUN_PORT": str(proxy.ports["run_port"])}
    agent = [sys.executable, "-c", AGENT, f"https://api.far.example:{upstream.port}{PATH}", '{"messages": []}']
    nested = [sys.executable, "-m", "stepwell.cli", "run", "--trajectory", "within", "--", *agent]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "stepwell.cli", "run", "--trajectory", f"run-{name}", "--", *command],
            env={**kept, "HTTPS_PROXY": url_of(name, offices[name])},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, command in (("a", agent), ("b", nested))
    ]
    said = [process.communicate(timeout=120) for process in started]
    assert [out for out, _ in said] == ["chatcmpl-1\n"] * 2, said
    assert "SECRET" not in str(said)
    tunnel = f"CONNECT api.far.example:{upstream.port} HTTP/1.1"
    assert {name: offices[name].asked for name in "ab"} == {name: [(tunnel, credentials(name))] for name in "ab"}
    assert {exchange.trajectory_id for exchange in proxy.exchanges(upstream, 2)} == {"run-a", "within"}
    proxy.stop()
    assert b"SECRET" not in proxy.spool_bytes()
