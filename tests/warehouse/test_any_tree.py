"""Whatever tree of steps comes, in whatever order and over whatever restarts: it is stored as differences, and reads back as it was.

The whole way: spools, an ingest that may be a new one at each flush and then knows only what is stored, tables, a reader.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stepwell.exchange.canonical import canonical_messages
from stepwell.sdk.records import Step
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Ingest, Warehouse, verify

COLUMNS = ["step_id", "trajectory_id", "prompt_ids", "response_ids", "logprobs", "messages", "response", "tools"]
TEXTS = ("", "ja", "ü", 'q"\\\n', "\u2028\x00", "👩🏽‍🚀 数据", "e\u0301 é", "long 🏔 " * 400)
"""Empty, what JSON escapes, what lines end with, more than one unit of UTF-16, two forms of one letter, and one that is stored apart."""
TOOLS: tuple[list[dict[str, Any]] | None, ...] = (None, [], [{"name": "t"}], [{"name": "t" * 3000}])


class Grower:
    """Grows trees of steps, as the random source says."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.steps: list[Step] = []

    def tree(self, trajectory: str, count: int) -> None:
        """Each step goes on from an earlier one: whole, cut (a branch), as it was (a retry, a sibling), or changed on the way."""
        own: list[Step] = []
        for number in range(count):
            base = self.source.choice(own) if own and self.source.random() < 0.85 else None
            how = self.source.choice(["whole", "whole", "cut", "again", "drift"])
            own.append(self._step(f"{trajectory}.{number}", trajectory, base, how))
        self.steps += own

    def _step(self, name: str, trajectory: str, base: Step | None, how: str) -> Step:
        ids, said = self._grown(base, how)
        kind = self.source.choice(["both", "both", "tokens", "text"])
        fields: dict[str, Any] = {"tools": self.source.choice(TOOLS)}
        if how == "again" and base is not None:
            fields |= {"call_id": base.call_id or base.step_id, "status": self.source.choice(["ok", "error"])}
        if kind != "text":
            response = self._ids(5)
            fields |= {"prompt_ids": ids, "response_ids": response}
            fields |= {"logprobs": [-0.5] * len(response)} if self.source.random() < 0.5 else {}
        if kind != "tokens":
            fields |= {"messages": said, "response": {"role": "assistant", "content": self._text()}}
        return Step(step_id=name, trajectory_id=trajectory, **fields)

    def _grown(self, base: Step | None, how: str) -> tuple[list[int], list[dict[str, Any]]]:
        """The prompt, as ids and as messages."""
        if base is None:
            return self._ids(40) or [1], [{"role": "user", "content": self._text()}]
        prompt, talk = list(base.prompt_ids or ()), list(base.messages or ())
        if how == "again" and prompt and talk:
            return prompt, talk
        ids = [*prompt, *(base.response_ids or ())]
        said = [*talk, *([base.response] if base.response else ())]
        if how == "cut":
            ids, said = ids[: self.source.randint(0, len(ids))], said[: self.source.randint(0, len(said))]
        if how == "drift" and ids:
            place = self.source.randrange(len(ids))
            ids[place : place + self.source.randint(0, 3)] = self._ids(4)
            said = [{"role": "system", "content": self._text()}, *said]
        return [*ids, *self._ids(12)] or [1], [*said, {"role": "user", "content": self._text()}]

    def _ids(self, most: int) -> list[int]:
        few = self.source.choice([3, 150_000])  # repeating ones, in which much looks alike, and what models have
        return [self.source.randrange(few) for _ in range(self.source.randint(0, most))]

    def _text(self) -> str:
        return self.source.choice(TEXTS)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("empty") / "warehouse"
    Warehouse.open(root)
    return root


def through(empty: Path, flushes: Sequence[Sequence[Step]], restarts: Callable[[], bool]) -> Warehouse:
    """A warehouse with these steps, each sequence of them in a flush; before each the ingest may be another one."""
    folder = Path(tempfile.mkdtemp())
    shutil.copytree(empty, folder / "warehouse")
    worker = None
    with Spool(folder / "spool" / "p.db") as spool:
        for steps in flushes:
            bodies = [(step.step_id, step.model_dump_json(exclude_none=True).encode()) for step in steps]
            spool.append([Entry(id=f"step.{name}", kind="step", body=body) for name, body in bodies])
            if worker is None or restarts():
                worker = Ingest(Warehouse.open(folder / "warehouse"), folder / "spool")
            while worker.run_once():
                pass
    return Warehouse.open(folder / "warehouse", create=False)


def check_all_equal(warehouse: Warehouse, steps: Sequence[Step]) -> None:
    found = {row["step_id"]: row for row in warehouse.steps(columns=COLUMNS).read_all().to_pylist()}
    assert found.keys() == {step.step_id for step in steps}
    for step in steps:
        row = found[step.step_id]
        for name in ("prompt_ids", "response_ids", "logprobs"):
            said = getattr(step, name)
            assert row[name] == (None if said is None else list(said)), (step.step_id, name)
        texts = (None if step.messages is None else canonical_messages(step.messages), row["messages"])
        assert texts[0] == (None if texts[1] is None else orjson.loads(texts[1])), step.step_id
        assert step.tools == (None if row["tools"] is None else orjson.loads(row["tools"])), step.step_id
    report = verify(str(warehouse.uri), {}, deep=True)
    assert report.ok, [str(finding) for finding in report.findings]


# Without shrinking: an example takes most of a second, and its seed says all there is to know.
@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 2**32), flushes=st.integers(1, 5))
def test_any_trees_in_any_order_over_any_restarts(empty: Path, seed: int, flushes: int) -> None:
    """Many small trees at once: each example is a warehouse, which takes its time."""
    source = random.Random(seed)
    grower = Grower(source)
    for number in range(8):
        grower.tree(f"t{number}", source.randint(1, 8))
    steps = grower.steps
    arrived = source.sample(steps, len(steps))
    cuts = sorted(source.randint(0, len(steps)) for _ in range(flushes - 1))
    parts = [arrived[start:end] for start, end in zip([0, *cuts], [*cuts, len(steps)], strict=True)]
    warehouse = through(empty, [part for part in parts if part], lambda: source.random() < 0.6)
    try:
        check_all_equal(warehouse, steps)
    finally:
        shutil.rmtree(Path(warehouse.uri).parent)


@pytest.mark.parametrize("backwards", [False, True], ids=["as it was said", "the end first"])
def test_prompts_of_two_hundred_thousand_tokens(empty: Path, backwards: bool) -> None:
    """A long conversation with a branch and a retry, drifting near its beginning, in its middle and at its end; each step a new ingest."""
    rng = np.random.default_rng(3)
    prompt, steps = rng.integers(0, 150_000, 150_000).tolist(), []
    for turn in range(8):
        response = rng.integers(0, 150_000, 2_000).tolist()
        steps.append(Step(step_id=f"s{turn}", trajectory_id="t", prompt_ids=prompt, response_ids=response))
        prompt = [*prompt, *response, *rng.integers(0, 150_000, 6_000).tolist()]
        if turn == 4:
            prompt = [*(steps[2].prompt_ids or ()), *rng.integers(0, 150_000, 30_000).tolist()]
        if (place := {1: 17, 2: 80_000, 5: len(prompt) - 3}.get(turn)) is not None:
            prompt[place : place + 1] = [7, 7]
    retry = steps[6].model_copy(update={"step_id": "again", "call_id": "s6"})
    steps.append(retry)
    assert max(len(step.prompt_ids or ()) for step in steps) > 200_000
    arrived = steps[::-1] if backwards else steps
    warehouse = through(empty, [arrived[:3], arrived[3:4], arrived[4:]], lambda: True)
    try:
        check_all_equal(warehouse, steps)
        stored = warehouse.tables["steps"].dataset.to_table(columns=["prompt_suffix"], filter="ledger IS NULL")
        kept = sum(len(suffix) for suffix in stored["prompt_suffix"].to_pylist())
        assert kept < (2 if backwards else 1.7) * max(len(step.prompt_ids or ()) for step in steps)
    finally:
        shutil.rmtree(Path(warehouse.uri).parent)


def test_empty_prompts_are_refused(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> None:
    """By the record that everybody submits; of an engine that says so the ids are not kept."""
    with pytest.raises(ValidationError, match="is empty: the first response token would have nothing before it"):
        Step(prompt_ids=[], response_ids=[1])
    with pytest.raises(ValidationError, match="what did the policy see"):
        Step(response_ids=[1])
    feed.put(Entry(id="step.x", kind="step", body=b'{"step_id": "x", "prompt_ids": [], "response_ids": [1]}'))
    feed.exchange([{"role": "user", "content": "q"}], "a", "t", ids=([], [1, 2]))
    ingest()
    assert warehouse.query("SELECT count(*) AS n FROM steps WHERE len(response_ids) > 0")["n"].to_pylist() == [0]
    (reason,) = warehouse.query("SELECT reason FROM quarantine WHERE reason LIKE '%prompt_ids%'")["reason"].to_pylist()
    assert "is empty" in reason
