from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from stepwell.testing import Reply, ScriptedServer, ThrowawayCA


def test_a_certificate_for_names_and_addresses() -> None:
    authority = ThrowawayCA()
    certificate_pem, key_pem = authority.issue(["api.example", "127.0.0.1", "::1"])
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["api.example"]
    addresses = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    assert names.get_values_for_type(x509.IPAddress) == addresses
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    certificate.verify_directly_issued_by(authority.certificate)
    assert b"PRIVATE KEY" in key_pem
    assert b"PRIVATE KEY" not in authority.pem


@pytest.mark.parametrize("http2", [False, True])
def test_strict_verification_accepts_it(serve: Callable[..., ScriptedServer], http2: bool) -> None:
    server = serve(lambda call: Reply("ok"), http2=http2)
    context = server.client_context()
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with httpx2.Client(verify=context, http2=True) as client:
        for host in ("127.0.0.1", "localhost"):
            reply = client.get(f"https://{host}:{server.port}/v1/models")
            assert (reply.status_code, reply.http_version) == (200, "HTTP/2" if http2 else "HTTP/1.1")


def test_names_given_by_the_caller(serve: Callable[..., ScriptedServer]) -> None:
    server = serve(lambda call: Reply("ok"), names=["engine.internal"])
    url = f"https://127.0.0.1:{server.port}/v1/models"
    with httpx2.Client(verify=server.client_context(), headers={"connection": "close"}) as client:
        assert client.get(url, extensions={"sni_hostname": "engine.internal"}).status_code == 200
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            client.get(url)


def test_another_authority_is_not_trusted(serve: Callable[..., ScriptedServer]) -> None:
    first, second = serve(lambda call: Reply("ok")), serve(lambda call: Reply("ok"))
    with (
        httpx2.Client(verify=second.client_context()) as client,
        pytest.raises(httpx2.ConnectError, match="CERTIFICATE"),
    ):
        client.get(first.base_url + "/models")
    with httpx2.Client(verify=first.client_context()) as client:
        assert client.get(first.base_url + "/models").status_code == 200
