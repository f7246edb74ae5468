"""Settings: flag, then `STEPWELL_*` variable, then `stepwell.toml`, then default.

    data = "/var/lib/stepwell"
    warehouse = "s3://bucket/stepwell"
    [store]
    region = "eu-central-1"
    [proxy]
    port = 9000                       # STEPWELL_PROXY__PORT=9000
    [[proxy.routes]]                  # STEPWELL_PROXY__ROUTES='[{"host": …}]'
    host = "api.openai.com"
    upstream = "http://127.0.0.1:8000"
    engine = "vllm"

A key nobody knows is an error, in the file as in the environment: a misspelt setting that silently does nothing is worse.
Relative paths are relative to the working directory.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings.exceptions import SettingsError as _UnreadableVariable

from stepwell.cli._sources import PREFIX, Sources, explain, is_setting, refuse_unknown_variables
from stepwell.cli._store import StoreConfig
from stepwell.errors import SettingsError
from stepwell.gateway import GatewayConfig
from stepwell.proxy import ProxyConfig
from stepwell.warehouse import IngestConfig, RedactConfig

_FILE = "stepwell.toml"


class Settings(BaseSettings):
    """All settings of an installation, one section per room. Built by `load_settings`, which layers the sources."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    data: Path = Path("stepwell-data")
    """Spools, locks and, by default, the warehouse. On a local disk."""
    warehouse: str | None = None
    """Folder or `s3://bucket/prefix`; by default the folder `warehouse` inside `data`. See `warehouse_uri`."""
    store: StoreConfig = Field(default_factory=StoreConfig)
    proxy: ProxyConfig = Field(default_factory=ProxyConfig)
    gateway: GatewayConfig = Field(default_factory=GatewayConfig)
    ingest: IngestConfig = Field(default_factory=IngestConfig)
    redact: RedactConfig = Field(default_factory=RedactConfig)

    @field_validator("data")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("warehouse")
    @classmethod
    def _place(cls, value: str | None) -> str | None:
        return str(Path(value).expanduser().absolute()) if value and "://" not in value else value or None

    @property
    def warehouse_uri(self) -> str:
        """Where the tables are, spelt out."""
        return self.warehouse or str(self.data / "warehouse")

    @property
    def spools(self) -> Path:
        """The folder of the producers' spools."""
        return self.data / "spool"

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment `base` with these settings in place of its own, complete, for a child process that must see the same.

        Sections travel as JSON (`STEPWELL_PROXY='{…}'`). STEPWELL_CONFIG names the null device, an empty file, so that a
        `stepwell.toml` where the child works adds nothing.
        """
        sections = ("store", "proxy", "gateway", "ingest", "redact")
        kept = {name: value for name, value in base.items() if not is_setting(type(self), name)}
        return kept | {
            "STEPWELL_CONFIG": os.devnull,
            "STEPWELL_DATA": str(self.data),
            "STEPWELL_WAREHOUSE": self.warehouse_uri,
            **{PREFIX + name.upper(): getattr(self, name).model_dump_json() for name in sections},
        }

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # layered by `load_settings`, which must know what came from where


def load_settings(config: Path | None = None, **flags: Any) -> Settings:
    """The settings in force. `flags` are fields or sections (`proxy={"port": 0}`); None in them means "not given".

    Raises:
        SettingsError: a file that cannot be read, a key nobody knows, a value of the wrong kind; names the key and its source.
    """
    path, file = _read_file(config)
    sources = Sources(flags=_given(flags), variables=dict(os.environ), file=file, path=path)
    refuse_unknown_variables(Settings, sources.variables)
    try:
        return Settings(**_over(_over(file, _from_variables(sources.variables)), sources.flags))
    except ValidationError as error:
        raise SettingsError(explain(Settings, error, sources)) from None


def _from_variables(variables: Mapping[str, str]) -> dict[str, Any]:
    source = EnvSettingsSource(Settings)
    try:
        return source()
    except _UnreadableVariable:  # it names the field, not the variable: find that
        for name in sorted(variables):
            source.env_vars = {name.lower(): variables[name]}
            try:
                source()
            except _UnreadableVariable:
                raise SettingsError(f"the variable {name} holds a list or a section and must be JSON") from None
        raise


def _read_file(config: Path | None) -> tuple[Path, dict[str, Any]]:
    named = config or (Path(os.environ["STEPWELL_CONFIG"]) if os.environ.get("STEPWELL_CONFIG") else None)
    path = named or Path(_FILE)
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named is None:
            return path, {}
        raise SettingsError(f"there is no settings file {path}") from None
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was not given, so that it does not hide a lower source."""
    nested = {key: _given(value) if isinstance(value, Mapping) else value for key, value in flags.items()}
    return {key: value for key, value in nested.items() if value is not None and value != {}}


def _over(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """`upper` laid over `lower`, section by section; a list replaces a list."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = _over(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
