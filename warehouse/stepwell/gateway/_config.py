"""The gateway's settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["GatewayConfig"]


class GatewayConfig(BaseModel):
    """Section `gateway` of `stepwell.toml`; `STEPWELL_GATEWAY__…` in the environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    """Address to listen on. Anything but a loopback address opens the gateway to the network: mind the token."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8787
    """0 takes a free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Further names clients may reach the gateway by, as they stand in the Host header, without port."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 << 20
    """Most bytes in one request's body."""
    max_batch: Annotated[int, Field(ge=1)] = 1000
    """Most records in one request."""
    max_spool_bytes: Annotated[int, Field(ge=1 << 20)] = 8 << 30
    """Most bytes that may wait to be ingested; beyond that submissions are answered 503."""
