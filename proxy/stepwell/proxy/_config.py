"""What the proxy is told to do. Importable without mitmproxy, by the command line and by `stepwell run`."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from stepwell.proxy._upstream_url import proxy_parts

CONTROL_HOST = "stepwell.invalid"
"""Host name the proxy answers itself, to clients with credentials (`.invalid` never resolves: RFC 2606)."""

RUN_PORT = 8788
PORT = 8789

Engine = Literal["vllm", "sglang", "llamacpp"]

DEFAULT_HOSTS = (
    "api.openai.com",
    "*.api.openai.com",
    "chatgpt.com",
    "*.openai.azure.com",
    "*.cognitiveservices.azure.com",
    "*.services.ai.azure.com",
    "*.models.ai.azure.com",
    "models.github.ai",
    "models.inference.ai.azure.com",
    "api.githubcopilot.com",
    "api.*.githubcopilot.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    "aiplatform.googleapis.com",
    "*-aiplatform.googleapis.com",
    "aiplatform.*.rep.googleapis.com",
    "bedrock-runtime.*.amazonaws.com",
    "bedrock-runtime-fips.*.amazonaws.com",
    "bedrock-runtime.*.api.aws",
    "bedrock-mantle.*.api.aws",
    "ollama.com",
    "openrouter.ai",
    "api.groq.com",
    "api.mistral.ai",
    "codestral.mistral.ai",
    "api.deepseek.com",
    "api.together.xyz",
    "api.together.ai",
    "api.fireworks.ai",
    "api.cerebras.ai",
    "api.sambanova.ai",
    "api.x.ai",
    "*.api.x.ai",
    "api.perplexity.ai",
    "api.cohere.ai",
    "api.cohere.com",
    "api.deepinfra.com",
    "api.novita.ai",
    "api.hyperbolic.xyz",
    "api.moonshot.ai",
    "api.moonshot.cn",
    "api.minimax.io",
    "api.minimaxi.com",
    "api.z.ai",
    "open.bigmodel.cn",
    "dashscope.aliyuncs.com",
    "dashscope-intl.aliyuncs.com",
    "dashscope-us.aliyuncs.com",
    "ark.*.volces.com",
    "api.siliconflow.cn",
    "api.siliconflow.com",
    "router.huggingface.co",
    "api.studio.nebius.com",
    "api.studio.nebius.ai",
    "api.tokenfactory.nebius.com",
    "inference.baseten.co",
    "ai-gateway.vercel.sh",
    "gateway.ai.cloudflare.com",
    "integrate.api.nvidia.com",
)
"""Providers that speak a dialect we read; there, paths say what is a step. Every other host is passed through undecrypted."""

BASE_URLS = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434",
}

_PATTERN = re.compile(r"[a-z0-9*?._-]+(:\d{1,5})?|\[[0-9a-f:]+\](:\d{1,5})?")


def _host_pattern(value: str) -> str:
    pattern = value.lower()
    if not _PATTERN.fullmatch(pattern):
        shown = repr(value) if "@" not in value else "this"  # it may be a URL with a password in it
        raise ValueError(f"{shown} is no host: give a name, host:port, or a glob such as *.example.com")
    if not pattern.partition(":")[0].strip("*?."):
        raise ValueError(f"{value!r} would decrypt every host: name the hosts")
    return pattern


def _provider_name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", value) or value in {"t", "k"}:
        raise ValueError(
            f"{value!r} cannot be the name of a base URL: small letters, digits, `.`, `_` and `-`, and neither t nor k"
        )
    return value


ProviderName = Annotated[str, AfterValidator(_provider_name)]
"""What stands in a base URL's path for a provider."""

HostPattern = Annotated[str, AfterValidator(_host_pattern)]
"""A host name or glob (`*.example.com`), in lower case; with `:port` it means that port only."""


def _url_parts(value: str, form: str) -> SplitResult:
    """The parts of an http(s) URL. Raises ValueError, without a word of the value: it may hold a password."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:  # which would quote what stands where a port is looked for
        raise ValueError(f"is no URL of the form {form}: its host or port cannot be read") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"is no URL of the form {form}")
    return parts


def _upstream_url(value: str) -> str:
    parts = _url_parts(value, "http(s)://host[:port][/prefix]")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must be without user, password, query and fragment")
    return value


class Route(BaseModel):
    """Where calls to a host go, and what answers them. The first route that fits a call counts.

    As in nginx, an upstream *with* a path replaces the matched prefix (`path="/api"`, `upstream="http://127.0.0.1:8000/"` turns
    `/api/v1/chat/completions` into `/v1/chat/completions`), and one *without* leaves the path as it is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    host: HostPattern
    path: str = ""
    """Prefix of the paths meant; empty: all."""
    model: str | None = None
    """Only generations asked of this model (a name or glob)."""
    upstream: str | None = None
    """`http(s)://host[:port][/prefix]`; None: the host itself."""
    engine: Engine | None = None
    """The server there: generations are then asked for token ids and logprobs too, in its own request fields."""
    ca: Path | None = None
    """PEM of an authority to trust besides the usual ones."""

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if value and not value.startswith("/"):
            raise ValueError(f"{value!r} must start with a slash")
        return value

    @field_validator("upstream")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        return value if value is None else _upstream_url(value)


class ProxyConfig(BaseModel):
    """The proxy's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    host: str = "127.0.0.1"
    """The loopback address to listen on: anybody who reaches `port` may use it."""
    port: Annotated[int, Field(ge=0, le=65535)] = PORT
    """For agents without credentials (only HTTPS_PROXY and the CA file set); 0: any free port."""
    run_port: Annotated[int, Field(ge=0, le=65535)] = RUN_PORT
    """For `stepwell run`, with credentials in the proxy URL; 0: any free port."""
    hosts: tuple[HostPattern, ...] = DEFAULT_HOSTS
    """The hosts to decrypt, besides those of the routes."""
    routes: tuple[Route, ...] = ()
    base_urls: dict[ProviderName, Annotated[str, AfterValidator(_upstream_url)]] = Field(
        default_factory=lambda: dict(BASE_URLS)
    )
    """Where `http://127.0.0.1:<port>/<name>/…` goes, by name; added to the usual ones."""
    upstream_proxy: Annotated[str | None, Field(repr=False)] = None
    """`http(s)://[user:password@]host[:port]` to reach every host through that NO_PROXY does not name; empty: none. By default
    what HTTPS_PROXY says where the proxy is started."""
    ca_name_constraints: bool = True
    """Whether the certificate authority is good for the decrypted hosts only, for clients that understand such a limit."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 << 20
    """What capture keeps of one body. The call itself is never limited."""
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    """How long calls in flight may take to finish when the proxy is told to stop."""
    max_spool_bytes: Annotated[int, Field(ge=1 << 20)] = 8 << 30
    """What may wait to be ingested; beyond it calls go through unrecorded, and are counted."""

    @field_validator("base_urls")
    @classmethod
    def _with_the_usual(cls, value: dict[str, str]) -> dict[str, str]:
        return {**BASE_URLS, **value}

    @field_validator("upstream_proxy")
    @classmethod
    def _proxy_url(cls, value: str | None) -> str | None:
        if value:
            _url_parts(value, "http(s)://[user:password@]host[:port]")
            proxy_parts(value)  # as who uses it reads it: else it would be passed over there
        return value

    @field_validator("host")
    @classmethod
    def _loopback(cls, value: str) -> str:
        try:
            loopback = value == "localhost" or ipaddress.ip_address(value).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            raise ValueError(f"{value!r} is no loopback address; the proxy takes local agents only")
        return value

    @model_validator(mode="after")
    def _two_ports(self) -> Self:
        if self.port == self.run_port != 0:
            raise ValueError(f"port and run_port are both {self.port}: give two different ports")
        return self
