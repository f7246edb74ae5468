"""A conversation that is to be forgotten, and whether a byte of it is left."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from stepwell.warehouse import Warehouse
from stepwell.warehouse._forget.forget import Forget
from stepwell.warehouse._forget.report import Forgotten

SECRET = "Rumpelstilzchen"
LONG = f"{SECRET} " + "z" * 3000
"""Longer than what is stored in place."""


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def tell(feed: Any, trajectory: str | None, *, turns: int = 3, text: str = SECRET) -> list[str]:
    """A conversation in which everybody says `text`, with ids and a large message; its steps."""
    talk, steps, ids = [user(f"{text} begins"), user(LONG if text == SECRET else "y" * 3000)], [], list(range(50))
    for turn in range(turns):
        answer = [1000 + turn, 1001 + turn]
        steps.append(feed.exchange(talk, f"{text} answers {turn}", trajectory, ids=(ids, answer)))
        ids = [*ids, *answer, *range(2000 + turn, 2040 + turn)]
        talk = [*talk, {"role": "assistant", "content": f"{text} answers {turn}"}, user(f"{text} asks {turn}")]
    return steps


def found(root: Path, *words: str) -> list[str]:
    """The files that hold one of these words."""
    held = []
    for path in sorted(root.rglob("*")):
        with suppress(FileNotFoundError, IsADirectoryError):  # a lease's beat comes and goes
            data = path.read_bytes()
            held += [str(path.relative_to(root))] if any(word.encode() in data for word in words) else []
    return held


def forget(data: Path, *trajectories: str, where: str | None = None, patience: float = 0.5) -> Forgotten:
    """The producers of most tests live and make no file anew: they are not waited for long."""
    done = Forget(Warehouse.open(data / "warehouse", create=False), data, patience=patience).run(trajectories, where)
    assert done is not None
    return done
