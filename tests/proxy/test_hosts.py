"""Which hosts a pattern means."""

from __future__ import annotations

import pytest

from stepwell.proxy._hosts import host_test


@pytest.mark.parametrize(
    ("host", "port", "meant"),
    [
        ("api.example.com", 443, True),
        ("API.Example.COM.", 443, True),
        ("evil-api.example.com", 443, False),
        ("api.example.com.evil.test", 443, False),
        ("a.b.azure.test", 443, True),
        ("azure.test", 443, False),
        ("127.0.0.1", 8000, True),
        ("127.0.0.1", 8001, False),
        ("::1", 9000, True),
        ("::1", 9001, False),
    ],
)
def test_patterns(host: str, port: int, meant: bool) -> None:
    test = host_test(["api.example.com", "*.azure.test", "127.0.0.1:8000", "[::1]:9000"])
    assert test(host, port) is meant
    assert test(host, port) is meant  # also when remembered


def test_no_patterns_mean_no_host() -> None:
    assert not host_test([])("localhost", 80)
