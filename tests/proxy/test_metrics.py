"""The proxy tells Prometheus, when it is asked as a server."""

from __future__ import annotations

import http.client

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stepwell.proxy import CONTROL_HOST
from stepwell.spool import CONTENT_TYPE, SpoolReader

from .conftest import TOKEN, RunningProxy, StartProxy, StartUpstream, eventually


def ask(proxy: RunningProxy, path: str = "/metrics", *, host: str = "localhost", port: str = "port") -> tuple[int, str]:
    plain = http.client.HTTPConnection("127.0.0.1", proxy.ports[port], timeout=30)
    plain.request("GET", path, headers={"host": host})
    answer = plain.getresponse()
    text = answer.read().decode()
    assert answer.status != 200 or answer.headers["content-type"] == CONTENT_TYPE
    plain.close()
    return answer.status, text


def test_what_it_has_in_memory_and_in_its_spool(start_proxy: StartProxy, start_upstream: StartUpstream) -> None:
    upstream, proxy = start_upstream(), start_proxy("localhost")
    proxy.client(proxy.url("t")).post(f"{upstream.url}/v1/chat/completions", json={"messages": []}).raise_for_status()
    eventually(lambda: len(proxy.records()) == 2)
    status, text = ask(proxy)
    assert status == 200
    with SpoolReader(proxy.spool) as reader:
        producer = reader.producer
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found[("stepwell_proxy_in_flight",)] == 0
    assert found[("stepwell_proxy_lost_total",)] == 0
    assert found[("stepwell_spool_lag_records", producer)] == 2
    assert found[("stepwell_spool_oldest_age_seconds", producer)] >= 0
    assert found[("stepwell_spool_alive", producer)] == 1
    assert not [record for record in proxy.records() if b"metrics" in record.head], "asking is no call"


def test_also_by_way_of_the_proxy(proxy: RunningProxy) -> None:
    client = proxy.client(proxy.url("x"))
    answer = client.get(f"http://{CONTROL_HOST}/metrics")
    assert answer.status_code == 200 and "stepwell_proxy_in_flight" in answer.text
    assert client.post(f"http://{CONTROL_HOST}/metrics").status_code == 405


def test_by_another_name_the_token_is_needed(proxy: RunningProxy) -> None:
    assert ask(proxy, host="evil.example")[0] == 403
    assert ask(proxy, "/k/wrong/metrics", host="monitor.example")[0] == 403
    assert ask(proxy, f"/k/{TOKEN}/metrics?x=1", host="monitor.example")[0] == 200
    assert ask(proxy, port="run_port")[0] == 407


@pytest.mark.parametrize("path", ["/metrics/x", "/t/x/metrics", "/health", "/trajectories"])
def test_nothing_else_of_the_control_host_is_reached_that_way(proxy: RunningProxy, path: str) -> None:
    assert ask(proxy, path)[0] == 404
