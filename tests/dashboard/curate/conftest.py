"""Tasks with answers to be judged, in every test's warehouse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.dashboard.house import House
from tests.dashboard.tasks import fill_tasks
from tests.dashboard.visit import Visit


@pytest.fixture(autouse=True)
def filled(house: House) -> None:
    fill_tasks(house)


@pytest.fixture
def visit(visit_of: Callable[..., Visit]) -> Visit:
    """The page waits for what it said to be committed, which here nothing does before the test says so."""
    made = visit_of()
    made.allowed.append(r"504 .*/flush\)")
    return made
