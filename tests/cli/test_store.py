"""Settings of the object store in the names the store knows."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from stepwell.cli._store import StoreConfig


def test_nothing_set_leaves_everything_to_the_aws_environment() -> None:
    assert StoreConfig().storage_options() == {}


def test_an_http_endpoint_allows_http_by_itself() -> None:
    found = StoreConfig(endpoint="http://127.0.0.1:9000", region="eu-central-1").storage_options()
    assert found == {"aws_endpoint": "http://127.0.0.1:9000", "aws_region": "eu-central-1", "allow_http": "true"}


def test_an_https_endpoint_does_not() -> None:
    assert StoreConfig(endpoint="https://minio.example").storage_options() == {"aws_endpoint": "https://minio.example"}


def test_virtual_hosting_is_passed_on() -> None:
    assert StoreConfig(virtual_hosted=True).storage_options() == {"aws_virtual_hosted_style_request": "true"}


@pytest.mark.parametrize("wrong", [{"endpoint": "127.0.0.1:9000"}, {"aws_access_key_id": "x"}])
def test_what_it_does_not_know_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        StoreConfig.model_validate(wrong)
