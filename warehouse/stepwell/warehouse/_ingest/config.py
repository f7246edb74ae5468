"""Settings of the ingest process."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class IngestConfig(BaseModel):
    """How often ingest commits. Times are seconds."""

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
