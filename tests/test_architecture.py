"""The shape of the house: which room may import which, what each shows, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = {
    "errors": "sdk",
    "home": "sdk",
    "spool": "sdk",
    "sdk": "sdk",
    "testing": "sdk",
    "exchange": "proxy",
    "proxy": "proxy",
    "warehouse": "warehouse",
    "reader": "warehouse",
    "gateway": "warehouse",
    "cli": "warehouse",
}
ALLOWED = {
    "errors": set(),
    "home": {"errors"},
    "spool": {"errors"},
    "sdk": {"errors", "home", "spool"},
    "exchange": {"errors", "spool", "sdk"},
    "proxy": {"errors", "home", "spool", "sdk", "exchange"},
    "testing": {"errors", "sdk", "exchange"},
    "warehouse": {"errors", "spool", "sdk", "exchange"},
    "reader": {"errors", "warehouse"},
    "gateway": {"errors", "home", "spool", "sdk", "exchange", "warehouse", "reader"},
    "cli": set(ROOMS) - {"cli"},
}

WAREHOUSE = (
    *(
        "_tables",
        "_store",
        "_redact",
        "_parse",
        "_encode",
        "_restore",
        "_link",
        "_query",
        "_datasets",
        "_upkeep",
        "_warehouse",
    ),
    *("_schema_words", "_schema_page", "_commit", "_ingest", "_verify", "_copy", "_forget", "_migrate"),
)
"""What is inside the warehouse: each imports only those before it."""

READER = (
    *(
        "_packages",
        "_parts",
        "_arrays",
        "_columns",
        "_minima",
        "_sequences",
        "_prefix",
        "_walk",
        "_tree",
        "_terms",
        "_torch",
        "_check",
        "_batch",
    ),
    *(
        "_media",
        "_merge",
        "_layout",
        "_modes",
        "_kernels",
        "_pack",
        "_credit",
        "_advantages",
        "_sampling",
        "_usable",
        "_dataset",
        "_select",
        "_plan",
        "_realise",
        "_read",
        "adapters",
        "_export",
    ),
)
"""What is inside the reader, likewise."""
FOR_TYPES_ONLY = {("_check", "_batch")}


def _files(room: str) -> list[Path]:
    place = ROOT / ROOMS[room] / "stepwell" / room
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def _imports(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "stepwell" else {node.module}
            )
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.startswith("stepwell.")}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_one_way(room: str) -> None:
    for file in _files(room):
        for name in _imports(file):
            other = name.split(".")[1]
            assert other == room or other in ALLOWED[room], f"{file.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize(("room", "order"), [("warehouse", WAREHOUSE), ("reader", READER)])
def test_imports_inside_a_room_point_one_way(room: str, order: tuple[str, ...]) -> None:
    place = ROOT / "warehouse" / "stepwell" / room
    assert {item.stem for item in place.iterdir()} - {"__init__", "__pycache__"} == set(order)
    for file in _files(room):
        here = file.relative_to(place).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        for name in _imports(file):
            other = name.split(".")[2] if name.startswith(f"stepwell.{room}.") else here
            fine = order.index(other) <= order.index(here) or (here, other) in FOR_TYPES_ONLY
            assert fine, f"{file.relative_to(place)} imports {name}"


@pytest.mark.parametrize("room", ROOMS)
def test_nobody_reaches_into_another_rooms_private_modules(room: str) -> None:
    for file in _files(room):
        for name in _imports(file):
            parts = name.split(".")
            assert parts[1] == room or not any(part.startswith("_") for part in parts), (
                f"{file.relative_to(ROOT)} imports {name}"
            )


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_shows_is_there_and_explained(room: str) -> None:
    module = importlib.import_module(f"stepwell.{room}")
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        shown = getattr(module, name)
        documented = inspect.isclass(shown) or inspect.isroutine(shown)
        assert not documented or shown.__doc__, f"stepwell.{room}.{name} has no docstring"


def test_no_package_claims_the_namespace() -> None:
    for root in {*ROOMS.values()}:
        assert not (ROOT / root / "stepwell" / "__init__.py").exists()


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("from stepwell import sdk", ("httpx2", "pydantic", "pyarrow", "numpy")),
        ("import stepwell.spool", ("pydantic", "httpx2")),
        ("import stepwell.exchange", ("lance", "lancedb", "pyarrow", "mitmproxy")),
        (
            "import stepwell.warehouse, stepwell.gateway, stepwell.proxy",
            ("lance", "lancedb", "pyarrow", "fastapi", "mitmproxy"),
        ),
        ("import stepwell.reader", ("lance", "lancedb", "torch", "duckdb")),
    ],
)
def test_importing_a_room_leaves_the_heavy_packages_alone(statement: str, absent: tuple[str, ...]) -> None:
    program = f"import sys; {statement}; print([m for m in {absent!r} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
