"""The proxy that the agent would have gone through without `stepwell run`: the agent's variable is needed for Stepwell's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stepwell.errors import SettingsError

if TYPE_CHECKING:
    from stepwell.proxy import ProxyConfig


def upstream_of(environ: Mapping[str, str], proxy: ProxyConfig) -> dict[str, str]:
    """What to open the trajectory with, so that its calls go through the environment's proxy; empty when that names none.

    A setting counts for more than HTTPS_PROXY, as it does for `stepwell up`.

    Raises:
        SettingsError: what the environment names is no http(s):// proxy.
    """
    from stepwell.proxy import environment_upstream

    if proxy.upstream_proxy is not None:
        return {}
    try:
        return environment_upstream(environ)
    except ValueError as error:
        raise SettingsError(
            f"{error}; mend or unset it, or set proxy.upstream_proxy (empty: no other proxy) to go by that instead"
        ) from None
