"""Which proxy the environment names, and what can be one."""

from __future__ import annotations

import pytest

from stepwell.proxy import environment_upstream
from stepwell.proxy._upstream_url import proxy_parts


@pytest.mark.parametrize(
    ("environ", "url", "no_proxy"),
    [
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "http://b:2"}, "http://b:2", ""),
        ({"HTTPS_PROXY": " http://a:1 ", "ALL_PROXY": "http://c:3", "NO_PROXY": "x,y"}, "http://a:1", "x,y"),
        ({"all_proxy": "c:3", "NO_PROXY": "x", "no_proxy": "y"}, "c:3", "y"),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "caf\udce9.example"}, "http://a:1", "caf?.example"),
    ],
)
def test_what_the_environment_names(environ: dict[str, str], url: str, no_proxy: str) -> None:
    assert environment_upstream(environ) == {"upstream_proxy": url, "no_proxy": no_proxy}


@pytest.mark.parametrize("environ", [{}, {"HTTPS_PROXY": " "}, {"NO_PROXY": "x"}, {"HTTP_PROXY": "http://a:1"}])
def test_none_is_named(environ: dict[str, str]) -> None:
    assert environment_upstream(environ) == {}


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("a", "a", None),
        ("a:1", "a", 1),
        ("u:p@a:1", "a", 1),
        ("HTTPS://u:p%2F@a.example/", "a.example", None),
        ("http://[::1]:3128", "::1", 3128),
    ],
)
def test_forms_of_a_proxys_url(url: str, host: str, port: int | None) -> None:
    parts = proxy_parts(url)
    assert (parts.hostname, parts.port) == (host, port)


@pytest.mark.parametrize(
    "url",
    [
        "socks5://x:SECRET@a:1",
        "http://x:SECRET@a:99999",
        "http://x:SECRET@",
        "http://x:SECRET@a b:1",
        "http://[x:SECRET@a",
        "http://x:1/SECRET@a:2",
        "http://x:1?SECRET@a:2",
        "http://x:1#SECRET@a:2",
        "http://x:SECRET\udce9@a:1",
        f"http://x:SECRET@a:1/{'x' * 5000}",
    ],
)
def test_what_cannot_be_one_is_refused_by_the_variables_name(url: str) -> None:
    with pytest.raises(ValueError, match="ALL_PROXY is no URL of the form") as refused:
        environment_upstream({"ALL_PROXY": url})
    assert "SECRET" not in str(refused.value) and refused.value.__cause__ is None
