"""Settings that cannot work are refused with the reason."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from stepwell.proxy import ProxyConfig, Route
from stepwell.proxy._hosts import host_test


def test_the_defaults_name_the_known_providers_on_two_ports() -> None:
    config = ProxyConfig()
    assert (config.host, config.port, config.run_port) == ("127.0.0.1", 8789, 8788)
    assert "api.openai.com" in config.hosts
    assert ProxyConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"host": "0.0.0.0"}, "no loopback address"),
        ({"host": "example.com"}, "no loopback address"),
        ({"port": 70000}, "65535"),
        ({"port": 9000, "run_port": 9000}, "two different ports"),
        ({"hosts": ["*"]}, "would decrypt every host"),
        ({"hosts": ["*.*"]}, "would decrypt every host"),
        ({"hosts": ["https://api.openai.com"]}, "is no host"),
        ({"hots": []}, "Extra inputs are not permitted"),
        ({"drain_seconds": float("inf")}, "finite"),
        ({"routes": [{"host": "x", "engine": "tgi"}]}, "'vllm', 'sglang' or 'llamacpp'"),
    ],
)
def test_bad_settings(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        ProxyConfig.model_validate(settings)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"host": ""}, "is no host"),
        ({"host": "x", "path": "v1"}, "start with a slash"),
        ({"host": "x", "upstream": "localhost:8000"}, "no URL of the form"),
        ({"host": "x", "upstream": "ftp://localhost"}, "no URL of the form"),
        ({"host": "x", "upstream": "http://u:p@localhost"}, "without user"),
        ({"host": "x", "upstream": "http://localhost:99999"}, "[Pp]ort"),
    ],
)
def test_bad_routes(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Route.model_validate(fields)


@pytest.mark.parametrize("url", ["http://u:SEC/RET@h:1", "http://a b:1", f"http://h/{'x' * 5000}"])
def test_another_proxy_that_could_not_be_used_is_refused_here(url: str) -> None:
    with pytest.raises(ValidationError, match="is no URL of the form") as caught:
        ProxyConfig(upstream_proxy=url)
    assert "SEC" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["u:SECRET@h", "socks5://u:SECRET@h", "http://u:SECRET/@h", "http://u:SECRET@h:99999", "http://u:SECRET[@h"]
)
def test_a_bad_url_is_not_quoted(url: str) -> None:
    """It may hold a password."""
    for settings in ({"upstream_proxy": url}, {"base_urls": {"x": url}}, {"routes": [{"host": "x", "upstream": url}]}):
        with pytest.raises(ValidationError, match="is no URL of the form") as caught:
            ProxyConfig.model_validate(settings)
        assert "SECRET" not in str(caught.value)
    with pytest.raises(ValidationError) as caught:
        Route.model_validate({"host": "x", "upstream": url})
    assert "SECRET" not in str(caught.value)


def test_hosts_are_compared_in_lower_case() -> None:
    assert Route(host="API.Example.com:8443").host == "api.example.com:8443"
    assert ProxyConfig(port=0, run_port=0, hosts=("[::1]:8000",)).hosts == ("[::1]:8000",)


@pytest.mark.parametrize(
    "host",
    [
        *("api.openai.com", "eu.api.openai.com", "chatgpt.com", "mine.openai.azure.com", "api.anthropic.com"),
        *("generativelanguage.googleapis.com", "us-east5-aiplatform.googleapis.com", "aiplatform.googleapis.com"),
        *("bedrock-runtime.us-west-2.amazonaws.com", "bedrock-runtime-fips.us-east-1.amazonaws.com", "openrouter.ai"),
        *("api.groq.com", "api.mistral.ai", "api.deepseek.com", "api.x.ai", "api.together.xyz", "api.fireworks.ai"),
    ],
)
def test_hosts_of_every_dialect_are_decrypted(host: str) -> None:
    assert host_test(ProxyConfig().hosts)(host, 443)


@pytest.mark.parametrize(
    "host",
    [
        *("auth.openai.com", "ab.chatgpt.com", "play.googleapis.com", "oauth2.googleapis.com", "github.com"),
        *(
            "s3.us-west-2.amazonaws.com",
            "sts.amazonaws.com",
            "bedrock.us-west-2.amazonaws.com",
            "console.anthropic.com",
        ),
        *("login.microsoftonline.com", "api.openai.com.evil.example", "notopenrouter.ai"),
    ],
)
def test_other_hosts_of_the_same_houses_stay_opaque(host: str) -> None:
    assert not host_test(ProxyConfig().hosts)(host, 443)
