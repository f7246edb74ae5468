"""The gateway's settings."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = ["LOOPBACK", "GatewayConfig"]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

_RATE_ELSEWHERE = 100.0

Secret = Annotated[str, StringConstraints(min_length=16, max_length=1024)]
Source = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


class GatewayConfig(BaseModel):
    """Section `gateway` of `stepwell.toml`; `STEPWELL_GATEWAY__…` in the environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    """Address to listen on. Anything but a loopback address opens the gateway to the network, and needs tokens."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8787
    """0 takes a free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Further names clients may reach the gateway by, as they stand in the Host header, without port."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=900 << 20)] = 64 << 20
    """Most bytes in one request's body, as sent and when decompressed."""
    max_batch: Annotated[int, Field(ge=1, le=16_384)] = 1000
    """Most records in one request."""
    max_spool_bytes: Annotated[int, Field(ge=1 << 20)] = 8 << 30
    """Most bytes that may wait to be ingested; beyond that submissions are answered 503."""
    rate: Annotated[float, Field(ge=0)] | None = None
    """Requests per second of one client (its address and token), over which it is answered 429; twice as many at once. 0: no limit.
    Left out: no limit on a loopback address, 100 elsewhere."""
    webhooks: dict[Source, Secret | tuple[Secret, ...]] = Field(default_factory=dict, repr=False)
    """By source, the secret that its webhooks are signed with; several while one is replaced by another."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host in LOOPBACK or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def rate_in_force(self) -> float:
        """`rate`, or what it is where it was left out."""
        if self.rate is not None:
            return self.rate
        return 0.0 if self.is_local else _RATE_ELSEWHERE
