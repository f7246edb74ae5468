"""docs/advantages.md against the code."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from stepwell.reader._credit import Advantage
from stepwell.reader._credit.advantage import USES
from stepwell.reader._credit.weights import Reduction

PAGE = (Path(__file__).parents[3] / "docs" / "advantages.md").read_text()


def _rows(heading: str) -> dict[str, str]:
    """The first table below a heading: its first column in backticks, and the line."""
    table = PAGE.split(heading, 1)[1].split("\n\n|", 1)[1].split("\n\n", 1)[0]
    return {name[1]: line for line in table.splitlines() if (name := re.match(r"\| `([^`]+)` ", line))}


def test_every_estimator_and_reduction_is_explained() -> None:
    assert set(_rows("## Advantages")) == set(USES) - {"callable"}
    assert set(_rows("## Loss weights")) == set(get_args(Reduction))


def test_each_estimator_has_the_settings_that_the_page_gives_it() -> None:
    everywhere = {"estimator", "rewards", "absent", "missing", "truncated", "baseline"}
    for name, line in _rows("## Advantages").items():
        assert set(re.findall(r"`(\w+)`", line.rsplit("|", 2)[1])) == USES[name] - everywhere, name
    for item in fields(Advantage):
        assert item.name == "estimator" or f"`{item.name}" in PAGE, item.name


def test_the_examples_run() -> None:
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, {})
