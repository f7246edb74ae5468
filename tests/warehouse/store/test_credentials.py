"""Variables, profiles and certificates mean to a warehouse what they mean to boto3, and Lance sees the same."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stepwell.errors import StoreError
from stepwell.warehouse._copy.ends import BucketEnd
from stepwell.warehouse._store.credentials import seen_by_lance
from stepwell.warehouse._store.s3 import s3_client
from stepwell.warehouse._tables.schema import STEPS
from stepwell.warehouse._tables.table import opened

_CREDENTIALS = """
[default]
aws_access_key_id = DEFAULTKEY
aws_secret_access_key = secret
[backup]
aws_access_key_id = BACKUPKEY
aws_secret_access_key = secret
"""


class Bucket(ThreadingHTTPServer):
    """Answers 404 to everything, and notes who asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: set[str] = set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Bucket)
        self.server.asked.add((self.headers["authorization"] or "").partition("Credential=")[2].partition("/")[0])
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815 — the name that the server looks for

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with Bucket() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with two profiles and a credential process, and nothing in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name == "SSL_CERT_FILE"]:
        monkeypatch.delenv(name)
    process = tmp_path / "process.sh"
    process.write_text(
        '#!/bin/sh\necho \'{"Version": 1, "AccessKeyId": "PROCESSKEY", "SecretAccessKey": "s", "SessionToken": "t"}\'\n'
    )
    process.chmod(0o755)
    (tmp_path / "credentials").write_text(_CREDENTIALS)
    (tmp_path / "config").write_text(f"[profile role]\ncredential_process = {process}\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def asked(bucket: Bucket, options: dict[str, str]) -> list[set[str]]:
    """Who Lance, and who boto3 is to the store, given these options."""
    seen = []
    with pytest.raises(StoreError, match="there is no table"):
        opened(STEPS, "s3://data/prefix", seen_by_lance(options), create=False)
    seen.append(set(bucket.asked))
    bucket.asked.clear()
    with pytest.raises(Exception, match="404"):
        s3_client(options).head_bucket(Bucket="data")
    return [*seen, set(bucket.asked)]


@pytest.mark.parametrize(
    ("variables", "options", "key"),
    [
        ({}, {}, "DEFAULTKEY"),
        ({"AWS_PROFILE": "backup"}, {}, "BACKUPKEY"),
        ({"AWS_PROFILE": "role"}, {}, "PROCESSKEY"),
        ({}, {"aws_profile": "backup"}, "BACKUPKEY"),
        ({}, {"aws_profile": "role"}, "PROCESSKEY"),
        ({"AWS_ACCESS_KEY_ID": "ENVKEY", "AWS_SECRET_ACCESS_KEY": "s"}, {}, "ENVKEY"),
        ({}, {"aws_access_key_id": "GIVENKEY", "aws_secret_access_key": "s"}, "GIVENKEY"),
    ],
)
def test_lance_and_boto3_are_the_same_to_the_store(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], options: dict[str, str], key: str
) -> None:
    for name, value in {**variables, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{bucket.server_port}"}.items():
        monkeypatch.setenv(name, value)
    assert asked(bucket, options) == [{key}, {key}]


def test_what_lance_finds_by_itself_is_left_to_it() -> None:
    """So that it renews what expires."""
    os.environ["AWS_PROFILE"] = "role"
    try:
        assert seen_by_lance({}) == {"aws_region": "eu-west-1"}
        assert seen_by_lance({"aws_region": "x"}) == {"aws_region": "x"}
    finally:
        del os.environ["AWS_PROFILE"]


def test_a_profiles_keys_are_handed_over_and_its_name_is_not() -> None:
    assert seen_by_lance({"aws_profile": "role"}) == {
        "aws_region": "eu-west-1",
        "aws_access_key_id": "PROCESSKEY",
        "aws_secret_access_key": "s",
        "aws_session_token": "t",
    }


def test_the_endpoint_for_s3_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://store.example")
    assert seen_by_lance({})["aws_endpoint"] == "https://store.example"
    assert "allow_http" not in seen_by_lance({})
    assert seen_by_lance({"aws_endpoint": "https://other.example"})["aws_endpoint"] == "https://other.example"


def test_a_profile_that_is_not_there_is_said() -> None:
    with pytest.raises(StoreError, match="nobody"):
        seen_by_lance({"aws_profile": "nobody"})
    with pytest.raises(StoreError, match="nobody"):
        BucketEnd("s3://data/prefix", {"aws_profile": "nobody"})


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system's own store of certificates is asked")
def test_a_certificate_authority_of_ones_own(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, chain = _authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    bucket.socket = context.wrap_socket(bucket.socket, server_side=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://localhost:{bucket.server_port}")
    monkeypatch.setenv("SSL_CERT_FILE", "")
    monkeypatch.delenv("SSL_CERT_FILE")  # remembered as unset, so that it is again
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    assert asked(bucket, {}) == [{"DEFAULTKEY"}, {"DEFAULTKEY"}]


def _authority(folder: Path) -> tuple[Path, Path]:
    """The certificate of an authority, and key and certificate that it gave to localhost."""
    own, theirs = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority")])
    now = datetime.datetime.now(datetime.UTC)

    def begun(subject: str, key: Any) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder(issuer_name=name)
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
        )

    authority = begun("an authority", own).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    server = begun("localhost", theirs).add_extension(names, critical=False)
    server = server.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own.public_key()), critical=False)
    bundle, chain, pem = folder / "authority.pem", folder / "server.pem", serialization.Encoding.PEM
    bundle.write_bytes(authority.sign(own, hashes.SHA256()).public_bytes(pem))
    key = theirs.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain.write_bytes(key + server.sign(own, hashes.SHA256()).public_bytes(pem))
    return bundle, chain
