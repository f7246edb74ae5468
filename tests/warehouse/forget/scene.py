"""A conversation that is to be forgotten, and whether a byte of it is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.stores import Place

from stepwell.cli import main
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._encode.payloads import PayloadMemory, outsourced
from stepwell.warehouse._forget.forget import Forget
from stepwell.warehouse._forget.report import Forgotten
from stepwell.warehouse._upkeep.indices import make

SECRET = "Rumpelstilzchen"
LONG = f"{SECRET} " + "z" * 3000
"""Longer than what is stored in place."""
WHERE = "step_id IN (SELECT target_id FROM feedback WHERE text = 'delete me')"
"""Selects nothing any more once the events are deleted."""


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


def command(data: str, begun: Event) -> None:
    """`stepwell forget`, in a process of its own."""
    begun.set()
    raise SystemExit(main(["forget", "--where", WHERE, "--yes", "--timeout", "5", "--data", data]))


def fill(new_feed: Callable[..., Any], local: Place, spools: Path, drained: Callable[[Ingest], int]) -> dict[str, Any]:
    """What the fixture `filled` makes. Three steps of `bad-one` and the first of `mixed` are what `WHERE` selects."""
    feed = new_feed()
    bad, mixed = tell(feed, "bad-one"), tell(feed, "mixed", text="fine")
    for step in (*bad, mixed[0]):
        feed.feedback(step_id=step, label="delete me", author=SECRET)
    drained(Ingest(local.open(), spools))
    feed.close()
    warehouse = local.open()
    warehouse.datasets.create("d", "true", note="with bad-one", pin=True)
    make(warehouse.tables["steps"].dataset, "steps", "trajectory_id", None)
    # Of a flush that was never announced: its payload is in no other file.
    _, apart = outsourced(b'{"role":"user","content":[{"type":"text","text":"%b"}]}' % (SECRET.encode() * 300))
    payloads, steps = warehouse.tables["payloads"], warehouse.tables["steps"]
    payloads.write(PayloadMemory().rows([(apart, "nobody", 1)]))
    lost = {"step_id": "lost", "trajectory_id": "bad-one", "payload_ids": [apart[0].payload_id]}
    steps.write(pa.Table.from_pylist([lost], schema=steps.spec.schema))
    return {"bad": bad, "mixed": mixed, "before": warehouse.whole(mixed[1:])}
