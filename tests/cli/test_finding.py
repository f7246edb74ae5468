"""A finding is one line."""

from stepwell.cli._finding import bad, ok, warn


def test_a_finding_is_one_line_with_what_to_do() -> None:
    assert str(ok("token", "fine")) == "ok    token        fine"
    assert str(warn("token", "hm")) == "warn  token        hm"
    assert str(bad("token", "no", "do this")) == "bad   token        no → do this"
