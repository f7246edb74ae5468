"""What agents and the proxy trust."""

from __future__ import annotations

import os
import re
import ssl
import time
from pathlib import Path

import certifi
import pytest

from stepwell.errors import SettingsError
from stepwell.proxy import ensure_ca, trust_bundle
from stepwell.proxy._ca_bundle import upstream_bundle
from stepwell.testing import ThrowawayCA


def _count(path: Path) -> int:
    return len(re.findall("BEGIN CERTIFICATE", path.read_text()))


def test_the_bundle_holds_public_own_named_and_extra_authorities(tmp_path: Path) -> None:
    named, extra = tmp_path / "named.pem", tmp_path / "extra.pem"
    named.write_bytes(ThrowawayCA("named").pem)
    extra.write_bytes(ThrowawayCA("extra").pem)
    public = _count(Path(certifi.where()))
    assert _count(trust_bundle(tmp_path)) == public + 1
    bundle = trust_bundle(tmp_path, [extra], environ={"SSL_CERT_FILE": str(named), "NODE_EXTRA_CA_CERTS": str(named)})
    assert _count(bundle) == public + 3
    ssl.create_default_context(cafile=str(bundle))
    # Inside a `stepwell run` the environment names such a bundle already.
    assert trust_bundle(tmp_path, environ={"SSL_CERT_FILE": str(bundle)}) == bundle


def test_the_proxy_does_not_trust_its_own_authority_upstream(tmp_path: Path) -> None:
    own = ensure_ca(tmp_path).read_text().strip()
    nested = trust_bundle(tmp_path)
    assert own in nested.read_text()
    assert own not in upstream_bundle(tmp_path, environ={"SSL_CERT_FILE": str(nested)}).read_text()


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    assert trust_bundle(tmp_path, environ={"SSL_CERT_FILE": str(tmp_path / "absent")}) == trust_bundle(tmp_path)
    with pytest.raises(SettingsError, match=r"absent.* routes"):
        trust_bundle(tmp_path, [tmp_path / "absent"])


def test_bundles_that_nobody_was_given_for_a_month_go(tmp_path: Path) -> None:
    extra = tmp_path / "extra.pem"
    extra.write_bytes(ThrowawayCA("extra").pem)
    kept, left, upstream = trust_bundle(tmp_path), trust_bundle(tmp_path, [extra]), upstream_bundle(tmp_path)
    month = time.time() - 31 * 86400
    for path in (kept, left, upstream):
        os.utime(path, (month, month))
    assert trust_bundle(tmp_path) == kept
    assert kept.exists() and upstream.exists() and not left.exists()
    younger = month + 2 * 86400
    os.utime(kept, (younger, younger))
    trust_bundle(tmp_path, [extra])
    assert kept.exists()  # 29 days
