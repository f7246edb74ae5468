"""Where a warehouse can be: a URI with its storage options."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config

from stepwell.warehouse import Warehouse

KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "aws_region": "us-east-1"}


@dataclass(frozen=True)
class Place:
    """Where a warehouse is."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)

    def open(self, **more: Any) -> Warehouse:
        return Warehouse.open(self.uri, storage_options=self.options, **more)


@dataclass(frozen=True)
class Endpoint:
    """A server that speaks S3."""

    url: str

    def client(self) -> Any:
        """boto3's, without retries: what the server does is what is seen."""
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=KEYS["aws_region"],
            aws_access_key_id=KEYS["aws_access_key_id"],
            aws_secret_access_key=KEYS["aws_secret_access_key"],
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    def place(self, **options: str) -> Place:
        """A place for a warehouse in a new bucket; `options` are further storage options."""
        bucket = f"bucket-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=bucket)
        return Place(f"s3://{bucket}/warehouse", {"aws_endpoint": self.url, "allow_http": "true", **KEYS, **options})
