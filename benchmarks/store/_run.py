"""One run of the benchmark: its sizes, its folder, its processes, and the warehouses that several measures share."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from benchmarks.proxy import Part
from benchmarks.store._spools import fill, new_spool, step_entry
from benchmarks.store._talk import Shape, talk

from stepwell.spool import SpoolReader, write_cursor
from stepwell.warehouse import Warehouse
from stepwell.warehouse._upkeep.maintain import Maintainer

SCRIPT = str(Path(__file__).parents[1] / "warehouse.py")
SMALL = Shape(0, turns=20, opening=40, between=20, answer=20)
"""A million of these is what memory is measured with."""
LONG = Shape(1, turns=200, opening=416, between=20, answer=20)
LONG_ID = "many1-0"
"""The trajectory of `LONG` in `Run.many`."""
SLICE = 5_000


@dataclass(frozen=True)
class Sizes:
    """Conversations of 20 turns for bytes and rates, and of 200 turns for growth; calls of agents; commits; small steps; seconds."""

    conversations: int = 64
    long: int = 2
    calls: int = 320
    commits: int = 300
    small: int = 20_000
    seconds: int = 15

    def scaled(self, by: float) -> Sizes:
        return Sizes(*(max(1, round(value * by)) for value in vars(self).values()))


FULL = Sizes(conversations=512, long=16, calls=2_560, commits=10_000, small=1_000_000, seconds=120)


@dataclass(frozen=True)
class Built:
    """A warehouse on disk, compacted, and what taking its records in cost."""

    uri: str
    steps: int
    cpu: float
    wall: float
    rss: int
    size: int
    """Bytes of content that were in the spool."""

    @property
    def bytes(self) -> int:
        return used(Path(self.uri))


@dataclass
class Run:
    """Close it to end its processes."""

    folder: Path
    sizes: Sizes
    machines: int = 8
    """Ingest processes that share a warehouse."""
    details: dict[str, Any] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _made: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def new_folder(self, name: str) -> Path:
        self._made += 1
        made = self.folder / f"{self._made}-{name}"
        made.mkdir()
        return made

    def part(self, *arguments: object) -> Part:
        """A process that runs one of `_parts`."""
        made = Part("part", *arguments, script=SCRIPT)
        self._stack.callback(made.stop)
        return made

    def build(self, name: str, *shapes: Shape) -> Built:
        """Submitted steps through a spool into a warehouse of its own, a slice at a time, by one ingest process; then maintained.

        A maintainer looks after each slice, as one beside ingest does all the time.
        """
        folder = self.new_folder(name)
        uri, spools = str(folder / "warehouse"), folder / "spool"
        maintainer = Maintainer(uri, Warehouse.open(uri).tables, {}, keep=timedelta(minutes=1))
        cpu = wall = rss = steps = size = 0.0
        with new_spool(spools) as spool:
            worker = self.part("ingest", uri, spools)
            for number, shape in enumerate(shapes):
                # So many conversations at once that a slice holds each of them whole.
                at_once = max(1, min(shape.conversations, SLICE // shape.turns))
                for first in range(0, shape.conversations, at_once):
                    now = replace(shape, conversations=min(at_once, shape.conversations - first))
                    count, content = fill(spool, map(step_entry, talk(now, f"{name}{number}", first)))
                    took = worker.ask("go")
                    assert took["records"] == count, f"{took['records']} records of {count} were taken in"
                    write_cursor(spools, {spool.producer: _last(spools)})
                    cpu, wall, rss = cpu + took["cpu"], wall + took["wall"], max(rss, took["rss"])
                    steps, size = steps + count, size + content
                    maintainer.tend(maintainer.nothing())
            worker.stop()
        maintain(uri)
        return Built(uri, int(steps), cpu, wall, int(rss), int(size))

    @cached_property
    def workload(self) -> Built:
        """The conversations of 20 turns, prompts from 416 to 8,206 ids."""
        return self.build("workload", Shape(self.sizes.conversations))

    @cached_property
    def many(self) -> Built:
        """Very many small steps, and one long conversation among them."""
        small = replace(SMALL, conversations=max(1, self.sizes.small // SMALL.turns // 2))
        return self.build("many", small, LONG, small)


def maintain(uri: str, *, keep: timedelta = timedelta(0)) -> None:
    """As `stepwell maintain` does; with nothing to `keep`, as when nobody reads."""
    Warehouse.open(uri).maintain(keep=keep)


def used(folder: Path) -> int:
    """Bytes on disk, as `du` counts them."""
    return sum(path.stat().st_blocks * 512 for path in (folder, *folder.rglob("*")))


def _last(spools: Path) -> int:
    (path,) = spools.glob("*.db")
    with SpoolReader(path) as reader:
        return reader.last()
