"""`stepwell version`: what runs here."""

from __future__ import annotations

from typing import Annotated

import typer

_PARTS = ("duckdb", "fastapi", "lancedb", "mitmproxy", "pyarrow", "pydantic", "pylance")


def version(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with Python and the main packages")] = False,
) -> None:
    """Print the version of Stepwell."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    own = installed("stepwell")
    if not as_json:
        print(f"stepwell {own}")  # noqa: T201
        return
    import json
    import platform

    packages: dict[str, str | None] = {}
    for name in _PARTS:
        try:
            packages[name] = installed(name)
        except PackageNotFoundError:
            packages[name] = None
    about = {"version": own, "python": platform.python_version(), "platform": platform.platform(), "packages": packages}
    print(json.dumps(about))  # noqa: T201
