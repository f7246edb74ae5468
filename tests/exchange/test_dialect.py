"""The seam between exchanges and steps."""

from __future__ import annotations

from stepwell.errors import StepwellError
from stepwell.exchange import Dialect, Unparseable, dialect_for


def test_every_dialect_has_what_the_seam_asks_for() -> None:
    dialect: Dialect | None = dialect_for("POST", "/v1/chat/completions")
    assert dialect is not None and dialect.name == "openai.chat"
    assert dialect.flags("unknown", {}) == {}


def test_unparseable_is_about_the_exchange_and_no_failure_of_ours() -> None:
    assert not issubclass(Unparseable, StepwellError)
    assert str(Unparseable("why")) == "why"
