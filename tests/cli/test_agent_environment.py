"""What the agent finds in its environment."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from stepwell.cli._agent_environment import agent_environment, proxy_url

CERTIFICATE, BUNDLE = Path("/home/ca/cert.pem"), Path("/home/ca/bundle.pem")


def environment(base: dict[str, str]) -> dict[str, str]:
    return agent_environment(
        base,
        proxy="http://t:k@127.0.0.1:1",
        gateway="http://127.0.0.1:2",
        trajectory="t",
        certificate=CERTIFICATE,
        bundle=BUNDLE,
    )


def test_every_clients_variables_are_set() -> None:
    found = environment({"PATH": "/bin"})
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        assert found[name] == "http://t:k@127.0.0.1:1"
    for name in (
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "AWS_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "CODEX_CA_CERTIFICATE",
    ):
        assert found[name] == str(BUNDLE)
    assert found["NODE_EXTRA_CA_CERTS"] == str(CERTIFICATE)
    assert found["NODE_USE_ENV_PROXY"] == "1"
    assert found["STEPWELL_URL"] == "http://127.0.0.1:2"
    assert found["STEPWELL_TRAJECTORY"] == "t"
    assert found["PATH"] == "/bin"


def test_no_proxy_stays_as_it_was() -> None:
    assert environment({"NO_PROXY": "internal", "no_proxy": "other"})["NO_PROXY"] == "internal"
    assert not {"NO_PROXY", "no_proxy"} & environment({}).keys()


def test_node_keeps_the_certificates_it_was_told_of() -> None:
    assert environment({"NODE_EXTRA_CA_CERTS": "/corporate.pem"})["NODE_EXTRA_CA_CERTS"] == str(BUNDLE)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_identity_survives_the_url(identity: str) -> None:
    parts = urlsplit(proxy_url("127.0.0.1", 8788, identity, "s3/cr@et"))
    assert (parts.hostname, parts.port) == ("127.0.0.1", 8788)
    assert unquote(parts.username or "") == identity
    assert unquote(parts.password or "") == "s3/cr@et"
