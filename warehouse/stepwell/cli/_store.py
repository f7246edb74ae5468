"""How the object store is reached."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class StoreConfig(BaseModel):
    """Section `[store]`. Credentials are not settings: they come from the usual AWS environment (variables, profile, role)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str | None = Field(default=None, pattern=r"^https?://")
    """URL of an S3-compatible server other than AWS."""
    region: str | None = None
    allow_http: bool | None = None
    """Speak unencrypted HTTP. Left out, true when the endpoint's URL begins with http://."""
    virtual_hosted: bool | None = None
    """Put the bucket in the host name; left out, the store's own default."""

    def storage_options(self) -> dict[str, str]:
        """The same in the names that Lance and its object store use."""
        plain = self.endpoint is not None and self.endpoint.startswith("http://")
        options = {
            "aws_endpoint": self.endpoint,
            "aws_region": self.region,
            "allow_http": plain if self.allow_http is None else self.allow_http,
            "aws_virtual_hosted_style_request": self.virtual_hosted,
        }
        return {name: _text(value) for name, value in options.items() if value is not None and value is not False}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
