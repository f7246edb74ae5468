"""Settings of the ingest process."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class IngestConfig(BaseModel):
    """How often ingest commits, and what it keeps. Times are seconds unless the name says days."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval: float = Field(
        default=0.5,
        ge=0,
        description="pause after a round that committed something: longer means fewer, larger commits",
    )
    idle: float = Field(default=0.1, gt=0, description="pause after a round that found nothing new")
    drain: float = Field(default=5.0, ge=0, description="how long to go on committing what is left when told to stop")
    lock_wait: float = Field(
        default=0.0, ge=0, description="how long to wait for a previous ingest on the same folder to end"
    )
    keep_versions: float = Field(
        default=3600.0,
        ge=0,
        description="how long an old version of a table stays readable: longer than the longest query, export or dataset read",
    )
    raw: Literal["errors", "all", "none"] = Field(
        default="errors",
        description="which calls are kept as they crossed the wire, besides what cannot be read: those with a step whose status is "
        'not ok ("errors"), "all", or "none", not even the bytes of what cannot be read, which no later version can read then',
    )
    raw_days: float = Field(
        default=14.0,
        gt=0,
        description="days after which raw calls go; what could not be read stays until it is forgotten",
    )
    raw_max_bytes: int = Field(
        default=8 << 20, ge=0, description="a larger body of a raw call is left out: its row says how large it was"
    )

    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="serve /metrics for Prometheus on this port (0: any free one); the gateway's tells of all spools of the machine, too",
    )
    metrics_host: str = Field(default="127.0.0.1", description="the address that metrics_port is listened on")

    @property
    def raw_age(self) -> timedelta:
        """How old a raw call may become."""
        return timedelta(days=self.raw_days)
