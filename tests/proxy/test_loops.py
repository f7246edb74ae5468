"""The proxy does not talk to itself."""

from __future__ import annotations

import pytest
from mitmproxy import connection
from mitmproxy.proxy import server_hooks

from stepwell.proxy._loops import Loops

from .conftest import RunningProxy, StartProxy


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "0.0.0.0", "LOCALHOST."])
@pytest.mark.parametrize("port", ["port", "run_port"])
def test_requests_to_its_own_ports(proxy: RunningProxy, host: str, port: str) -> None:
    answer = proxy.client().get(f"http://{host}:{proxy.ports[port]}/")
    assert answer.status_code == 508
    assert "itself" in answer.text


def test_tunnels_to_its_own_ports(proxy: RunningProxy) -> None:
    with pytest.raises(Exception, match="508"):
        proxy.client().get(f"https://localhost:{proxy.ports['port']}/")


def test_routes_to_itself(start_proxy: StartProxy) -> None:
    routes = (
        {"host": "a.test", "model": "m", "upstream": "http://localhost:8000"},
        {"host": "a.test", "upstream": "http://localhost:8001"},
    )
    first = start_proxy(name="first")
    ports = iter(first.ports.values())
    first.stop()
    rerouted = [{**route, "upstream": f"http://localhost:{port}"} for route, port in zip(routes, ports, strict=True)]
    again = start_proxy(name="again", routes=rerouted, **first.ports)
    client = again.client()
    assert client.post("https://a.test/v1/chat/completions", json={"model": "m"}).status_code == 508
    assert client.get("https://a.test/v1/models").status_code == 508
    assert not again.records()


def test_itself_under_another_name_is_recognised_when_it_comes_back_in() -> None:
    loops = Loops([8788, 8789])
    out = connection.Server(address=("alias.test", 8789))
    out.peername, out.sockname = ("127.0.0.1", 8789), ("127.0.0.1", 50001)
    other = connection.Client(peername=("127.0.0.1", 50002), sockname=("127.0.0.1", 8789))
    back = connection.Client(peername=("127.0.0.1", 50001), sockname=("127.0.0.1", 8789))
    data = server_hooks.ServerConnectionHookData(server=out, client=other)
    loops.server_connected(data)
    assert loops.comes_from_us(back)
    assert not loops.comes_from_us(other)
    loops.server_disconnected(data)
    assert not loops.comes_from_us(back)
