"""Every exception Stepwell raises on purpose.

    StepwellError
    ├── InvalidRecord     bad input: names the field            (also a ValueError)
    ├── SettingsError     a setting, a port, a path: exit code 2
    ├── SpoolError        the local queue cannot be used
    │   └── SpoolFull     … because its bound is reached: nothing was accepted
    ├── StoreError        the warehouse's store failed or cannot be reached
    │   └── CommitConflict  somebody else committed first: look again, then retry
    ├── DeliveryError     the gateway did not acknowledge what was asked of it
    └── MissingExtra      an optional part of the install is absent (also an ImportError)

A message says what happened, to what, and what to do.
"""

from __future__ import annotations

__all__ = [
    "CommitConflict",
    "DeliveryError",
    "InvalidRecord",
    "MissingExtra",
    "SettingsError",
    "SpoolError",
    "SpoolFull",
    "StepwellError",
    "StoreError",
]


class StepwellError(Exception):
    """Base of the tree: catch it to tell Stepwell's refusals from bugs."""


class InvalidRecord(StepwellError, ValueError):
    """A record was refused at the door; `field` is the path of the offending part, as in `steps[3].logprobs`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.reason = message


class SettingsError(StepwellError):
    """The settings ask for something that cannot be done; the command line ends with exit code 2."""


class SpoolError(StepwellError):
    """The spool cannot be opened, read or written."""


class SpoolFull(SpoolError):
    """The spool has reached its bound. Nothing was accepted: slow down, or let ingest catch up."""


class StoreError(StepwellError):
    """The object store or folder behind the warehouse failed; what was accepted stays in the spool."""


class CommitConflict(StoreError):
    """Another writer committed first. Nothing of this commit was written: refresh and decide again."""


class DeliveryError(StepwellError):
    """The gateway refused or did not answer; the message carries its words."""


class MissingExtra(StepwellError, ImportError):
    """A package of an optional extra is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"the package {package!r} is missing: it belongs to Stepwell's extra {extra!r}; "
            f"install it with: pip install 'stepwell[{extra}]'"
        )
        self.package = package
        self.extra = extra
