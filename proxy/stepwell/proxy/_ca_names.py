"""Which names the authority may vouch for: an X.509 name constraint (RFC 5280, section 4.2.1.10) from the hosts that are decrypted.

Whoever steals the key can then pose as those hosts and their subdomains, not as a bank. The constraint knows names with all that is
below them, and no globs, so `bedrock-runtime.*.amazonaws.com` permits `amazonaws.com`. Addresses are left free: a client whose
handshake names no host is shown a certificate for the address it asked for, and an address alone is of little use to a thief.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from cryptography import x509

from stepwell.proxy._config import ProxyConfig

_GLOB = re.compile(r"[*?]")
_MOST = 1000
"""Names carried over from an earlier certificate: more, and it begins anew."""


def permitted_names(config: ProxyConfig) -> frozenset[str] | None:
    """The names that the authority must be good for; None: any, because the settings say so or a pattern fits any name."""
    if not config.ca_name_constraints:
        return None
    names = [_base(host) for host in (*config.hosts, *(route.host for route in config.routes))]
    known = frozenset(name for name in names if name is not None)
    return known if len(known) == len(set(names)) else None


def constraint(names: Collection[str]) -> x509.NameConstraints:
    """The certificate's extension."""
    return x509.NameConstraints([x509.DNSName(name) for name in sorted(names)], None)


def names_of(certificate: x509.Certificate) -> frozenset[str] | None:
    """The names that a certificate permits; None: any."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        return None
    return frozenset(tree.value for tree in found.permitted_subtrees or () if isinstance(tree, x509.DNSName))


def fits(has: frozenset[str] | None, wants: frozenset[str] | None) -> bool:
    """Whether a certificate that permits `has` is good for `wants`, and no wider than a constraint can be."""
    if has is None or wants is None:
        return has is wants
    return all(_covered(name, has) for name in wants)


def together(has: frozenset[str] | None, wants: frozenset[str]) -> frozenset[str]:
    """Both, so that two installations of different settings do not take turns; without names that are below others."""
    every = wants | (has or frozenset())
    if len(every) > _MOST:
        every = wants
    return frozenset(name for name in every if not _covered(name, every - {name}))


def _covered(name: str, by: Iterable[str]) -> bool:
    return any(name == base or name.endswith(f".{base}") for base in by)


def _base(pattern: str) -> str | None:
    """The name below which all that a pattern fits is; None when there is none (`llm*`)."""
    if pattern.startswith("["):
        return pattern[1:].partition("]")[0]
    host = pattern.partition(":")[0].strip(".")
    # An address is no name, but OpenSSL takes one for a name where it stands as a certificate's common name.
    labels = host.split(".")
    if re.fullmatch(r"[\d*?.]+", host):
        return host if not _GLOB.search(host) else None
    kept: list[str] = []
    for label in reversed(labels):
        if _GLOB.search(label):
            break
        kept.insert(0, label)
    return ".".join(kept) or None
