"""Optimizer steps of a warehouse in which some steps have ids and others only text."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.reader.read.conftest import Told
from tests.reader.read.test_reader import sequences, terms
from tests.reader.realise.conftest import CHATML, said

from stepwell.errors import InvalidRecord
from stepwell.reader import BatchReader, ChatTemplate, Realiser, TiktokenEncoder, TreeBatches
from stepwell.reader._read.realised import _Found, with_lengths
from stepwell.reader._read.source import Source
from stepwell.reader._select.drift import shared_with_parent
from stepwell.reader._select.facts import Selection
from stepwell.reader.adapters import rows_of, step_details, to_trl_sft
from stepwell.sdk.records import Step
from stepwell.warehouse import Warehouse

pytest.importorskip("jinja2")

COLUMNS = "step_id, messages, tools, response, status, untrainable_reason"


def step(told: Told, trajectory: str, turn: int, **fields: Any) -> None:
    """It continues the turn before."""
    known = {"step_id": f"{trajectory}.{turn}", "parent_id": f"{trajectory}.{turn - 1}" if turn else None}
    told._tell("step", Step.model_validate({"trajectory_id": trajectory, "policy": "pi", **known, **fields}))


def text(told: Told, trajectory: str, turn: int, messages: list[Any], response: Any, **more: Any) -> None:
    """A step of a provider that gives no ids."""
    step(told, trajectory, turn, messages=messages, response=response, **more)


def rollout(told: Told, trajectory: str, group: str, turns: int, reward: float, *answer: Any) -> None:
    """A conversation that goes on."""
    told.trajectory(trajectory, group)
    messages = [said("user", f"task {group}")]
    for turn in range(turns):
        reply = said("assistant", *answer, f"{trajectory} says {turn}")
        text(told, trajectory, turn, messages, reply)
        messages = [*messages, reply, said("user", "go on")]
    told.reward(trajectory, reward)
    told.trajectory(trajectory, group, state="completed")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """Two groups with an engine's ids, four with text. To read only."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "spool").mkdir()
    told = Told(folder)
    for group in range(2):
        for member in range(2):
            told.rollout(f"e{group}{member}", f"ge{group}", 2, float(member))
    for group in range(4):
        for member in range(2):
            rollout(told, f"t{group}{member}", f"gt{group}", 3, float(member))
    yield told.commit()
    told.close()


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    (tmp_path / "spool").mkdir()
    made = Told(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def realiser(tiktoken_encoder: TiktokenEncoder) -> Realiser:
    return Realiser(tiktoken_encoder, ChatTemplate(CHATML), placeholders={"image": "<|image_pad|>"})


def arrays(batches: list[TreeBatches]) -> list[dict[str, list[Any]]]:
    return [{name: values.tolist() for name, values in pack.arrays().items()} for some in batches for pack in some]


def test_steps_with_and_without_ids_train_in_optimizer_steps_of_their_own(mixed: Warehouse, realiser: Realiser) -> None:
    reader = BatchReader(mixed, where="true", advantage=None, realise=realiser, groups_per_step=2)
    batches = list(reader)
    kinds = [{name[0] for name in batch.steps["step_id"].to_pylist()} for batch in batches]
    assert sorted(map(sorted, kinds)) == [["e"], ["t"], ["t"]]
    found = {name: ids for batch in batches for name, ids in sequences(batch).items()}
    table = realiser.realise(mixed.query(f"SELECT {COLUMNS} FROM steps WHERE response_ids IS NULL"))
    made = {row["step_id"]: row["prompt_ids"] + row["response_ids"] for row in table.to_pylist()}
    assert len(made) == 24
    assert made.items() <= found.items()
    stored = mixed.steps("response_ids IS NOT NULL", columns=["step_id", "prompt_ids", "response_ids"]).read_all()
    assert {row["step_id"]: row["prompt_ids"] + row["response_ids"] for row in stored.to_pylist()} == {
        name: ids for name, ids in found.items() if name not in made
    }
    assert sum(batch.occurrences for batch in batches) == sum(map(len, table["response_ids"].to_pylist())) + 8 * 2


def test_the_plan_tells_what_is_derived_and_what_comes_out(mixed: Warehouse, realiser: Realiser) -> None:
    reader = BatchReader(mixed, where="true", advantage=None, realise=realiser, groups_per_step=2, seed=None)
    plan, batches = reader.plan(), list(reader)
    assert (plan.derived, plan.selected, plan.left_out, plan.drift) == (24, 32, {}, {})
    assert realiser.fingerprint in plan.fingerprints and "24 steps train on ids that a tokenizer made" in str(plan)
    for planned, batch in zip(plan.optimizer_steps, batches, strict=True):
        found = batch.report
        assert (planned.steps, planned.terms, planned.tokens_naive) == (found.steps, found.terms, found.tokens_naive)
        assert planned.tokens_merged >= found.tokens_merged
    lines = BatchReader(mixed, where="true", advantage=None, realise=realiser, merge="trajectory", groups_per_step=2)
    for planned, batch in zip(lines.plan().optimizer_steps, lines, strict=True):
        assert planned == batch.report, "a conversation that goes on is a line"
    without = BatchReader(mixed, where="true", advantage=None).plan()
    assert (without.derived, without.left_out) == (0, {"not trainable: no token ids": 24})


@pytest.mark.parametrize("merge", ["tree", "trajectory", "none"])
def test_every_way_to_merge_has_the_same_terms(mixed: Warehouse, realiser: Realiser, merge: Any) -> None:
    asked: dict[str, Any] = {"where": "group_id LIKE 'gt%'", "advantage": None, "realise": realiser}
    (reference,) = BatchReader(mixed, merge="none", **asked)
    (batch,) = BatchReader(mixed, merge=merge, max_tokens=400, ranks=2, **asked)
    assert terms(batch) == terms(reference)


def test_the_same_batches_again_and_from_the_middle(mixed: Warehouse, realiser: Realiser) -> None:
    def reader(made: Realiser = realiser) -> BatchReader:
        return BatchReader(mixed, where="true", advantage=None, realise=made, groups_per_step=1, ranks=2, seed=5)

    whole = list(reader())
    assert arrays(list(reader())) == arrays(whole)
    begun = reader()
    following = iter(begun)
    for _ in range(3):
        next(following)
    state = begun.state_dict()
    resumed = reader()
    resumed.load_state_dict(state)
    assert arrays(list(resumed)) == arrays(whole[3:])
    other = Realiser(realiser._maker.encoder, ChatTemplate(CHATML, eos_token="x"))
    for made in (reader(other), BatchReader(mixed, where="true", advantage=None, groups_per_step=1, ranks=2, seed=5)):
        with pytest.raises(InvalidRecord, match="another selection"):
            made.load_state_dict(state)


def test_rl_losses_are_refused_before_anything_is_read(
    mixed: Warehouse, realiser: Realiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    (batch,) = BatchReader(mixed, where="group_id = 'gt0'", advantage="grpo", realise=realiser, derived=True)
    given = {round(value, 4) for pack in batch if pack.advantage is not None for value in pack.advantage.tolist()}
    assert given == {-0.7071, 0.7071}
    assert all(pack.old_logprob is None for pack in batch)
    with pytest.raises(InvalidRecord, match="no logprobs and others have") as lacking:
        BatchReader(mixed, where="group_id = 'gt0'", realise=realiser, derived=True, old_logprobs=True)
    assert lacking.value.field == "logprobs"
    monkeypatch.setattr(mixed, "query", None)
    with pytest.raises(InvalidRecord, match="were not sampled") as refused:
        BatchReader(mixed, where="true", advantage="grpo", realise=realiser)
    assert refused.value.field == "derived"


def test_what_cannot_be_realised_is_counted_by_its_reason(told: Told, realiser: Realiser) -> None:
    told.trajectory("t", "g")
    ask, answer = said("user", "q"), said("assistant", "yes")
    text(told, "t", 0, [ask], answer)
    text(told, "t", 1, [ask, answer, ask], answer, status="truncated")
    text(told, "t", 2, [said("user", {"type": "audio", "hash": "sha256:a"})], answer)
    text(told, "t", 3, [said("user", {"type": "image"})], answer)
    text(told, "t", 4, [ask], answer, trainable=False, untrainable_reason="redacted")
    text(told, "t", 5, [ask], answer, metadata={"tags": ["side"]})
    text(told, "t", 6, [ask], answer, split="eval")
    reader = BatchReader(told.commit(), where="true", advantage=None, realise=realiser)
    (batch,) = reader
    assert batch.steps["step_id"].to_pylist() == ["t.0"]
    cannot = "not trainable: cannot be realised"
    assert reader.plan().left_out == {
        "eval split": 1,
        "side call": 1,
        "not trainable: redacted": 1,
        f"{cannot}: the answer is not whole (truncated), and a chat template would end it": 1,
        f"{cannot}: media of the kind audio, for which there is no placeholder": 1,
        f"{cannot}: media of the kind image without a content hash": 1,
    }


def test_an_answer_with_gaps_is_none_that_trees_can_train(told: Told, tiktoken_encoder: TiktokenEncoder) -> None:
    source = CHATML.replace(
        "{{- message.content }}",
        "{{- message.content }}{%- endgeneration %}{{- '\\n' }}{%- generation %}{{- 'more' }}",
    )
    rollout(told, "t", "g", 1, 1.0)
    with pytest.raises(InvalidRecord, match="writes something in the midst of the answer"):
        BatchReader(
            told.commit(), where="true", advantage=None, realise=Realiser(tiktoken_encoder, ChatTemplate(source))
        )


def test_a_template_that_drops_old_reasoning_drifts(told: Told, realiser: Realiser) -> None:
    rollout(told, "t", "g", 3, 1.0, {"type": "reasoning", "text": "hm hm hm"})
    warehouse = told.commit()
    asked: dict[str, Any] = {"where": "true", "advantage": None, "realise": realiser}
    reader = BatchReader(warehouse, **asked)
    (batch,) = reader
    plan = reader.plan()
    assert plan.drift == {"rendered otherwise": 2}
    assert plan.notes == {"left out: reasoning of earlier turns": 2} and "realised: 2 left out" in str(plan)
    assert plan.optimizer_steps == (batch.report,)
    ids = sequences(batch)
    same = [a == b for a, b in zip(ids["t.0"], ids["t.1"], strict=False)].index(False)
    assert reader._steps.drift_at[1] == same
    kept = BatchReader(warehouse, on_drift="drop", **asked)
    assert kept.plan().left_out == {"drifted": 2}
    line = BatchReader(warehouse, on_drift="realign", merge="trajectory", **asked)
    (realigned,) = line
    assert line.plan().optimizer_steps == (realigned.report,)
    assert {key[:3] for key in terms(realigned)} <= {key[:3] for key in terms(batch)}


def test_realised_steps_and_ids_of_an_engine_are_nothing_to_each_other(told: Told, realiser: Realiser) -> None:
    told.trajectory("t", "g")
    first = said("assistant", "one")
    ids: dict[str, Any] = {"prompt_ids": [1, 2], "response_ids": [3], "fingerprint": "m"}
    step(told, "t", 0, messages=[said("user", "q")], response=first, **ids)
    text(told, "t", 1, [said("user", "q"), first, said("user", "r")], said("assistant", "two"))
    told.step("t", 2, [1, 2, 3, 4, 5], [6], logprobs=None)
    with pytest.raises(InvalidRecord, match="mixes models or tokenizers") as refused:
        BatchReader(told.commit(), where="true", advantage=None, realise=realiser)
    assert refused.value.field == "fingerprint"
    steps = Selection.of(told.warehouse, None, None, "true", None).read(told.warehouse)
    made = with_lengths(steps, realiser, Source(told.warehouse, realiser)).steps
    assert [made.drift.name(row) for row in range(3)] == [None, "other tokenizer", "other tokenizer"]
    assert shared_with_parent(made).tolist() == [-1, -1, -1], "not that all of it was the same"
    (batch,) = reader = BatchReader(told.warehouse, where="step_id <> 't.1'", advantage=None, realise=realiser)
    assert reader.plan().optimizer_steps[0].terms == batch.occurrences == 2
    (alone,) = BatchReader(told.warehouse, where="step_id = 't.1'", advantage=None, realise=realiser)
    assert alone.steps["step_id"].to_pylist() == ["t.1"]


def test_ids_are_dropped_when_their_lengths_are_known(
    mixed: Warehouse, realiser: Realiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[weakref.ref[Any]] = []
    made: list[_Found] = []
    most, kept, realised, of = 0, 0, Source.realised, _Found.of

    def noted(*asked: Any) -> _Found:
        made.append(of(*asked))
        return made[-1]

    def watched(*asked: Any) -> Iterator[pa.Table]:
        nonlocal most, kept
        for table in realised(*asked):
            for row in range(table.num_rows):
                tables.append(weakref.ref(piece := table.slice(row, 1)))
                most = max(most, sum(one() is not None for one in tables))
                yield piece
                kept = max(kept, len(made[0]._whole))

    monkeypatch.setattr(Source, "realised", watched)
    monkeypatch.setattr(_Found, "of", noted)
    before = pa.total_allocated_bytes()
    reader = BatchReader(mixed, where="true", advantage=None, realise=realiser)
    assert len(tables) == 24 and most <= 2 and all(one() is None for one in tables)
    assert kept == 1 and not made[0]._whole, "of the step before, as long as something may go on from it"
    assert reader._steps.realised.sum() == 24
    assert pa.total_allocated_bytes() - before < 100_000


def test_adapters_take_realised_rows(mixed: Warehouse, realiser: Realiser) -> None:
    reader = BatchReader(mixed, where="group_id = 'gt1'", advantage=None, realise=realiser, merge="trajectory")
    (batch,) = reader
    rows = rows_of(batch, step_details(mixed, batch, at=reader.plan().at))
    fields = to_trl_sft(rows)
    assert len(fields) == len(rows) == 2
    trained = sum(sum(label != -100 for label in np.ravel(row["labels"]).tolist()) for row in fields)
    assert trained == batch.occurrences


def asked(digest: str, *more: Any) -> list[Any]:
    return [said("user", "see: ", {"type": "image", "hash": digest}, " what is it?"), *more]


def test_images_of_realised_steps_are_compared_by_content(told: Told, realiser: Realiser) -> None:
    for name, digest in (("t1", "sha256:cat"), ("t2", "sha256:cat"), ("t3", "sha256:dog")):
        told.trajectory(name, "g")
        text(told, name, 0, asked(digest), said("assistant", f"{name} says"))
    (batch,) = BatchReader(told.commit(), where="true", advantage=None, realise=realiser)
    ids = sequences(batch)
    prompt = len(ids["t1.0"]) - len(realiser._maker.encoder.encode("t1 says<|im_end|>").ids)
    pad = ids["t1.0"].index(realiser._maker.encoder.encode("<|image_pad|>").ids[0])
    assert ids["t1.0"][:prompt] == ids["t3.0"][:prompt]
    alike, apart = _same(ids["t1.0"], ids["t2.0"]), pad
    assert batch.report.tokens == sum(map(len, ids.values())) - alike - apart
    assert batch.apart == {}, "all is known, so nothing is kept apart for want of knowing"
    (steps,) = BatchReader(told.warehouse, where="true", advantage=None, realise=realiser, merge="none")
    assert terms(batch) == terms(steps)


def _same(one: list[int], other: list[int]) -> int:
    return [a == b for a, b in zip(one, other, strict=False)].index(False)


def test_a_turn_with_another_image_is_planned_as_drifted(told: Told, realiser: Realiser) -> None:
    """The client sends another image where one stood; the ids go on all the same."""
    answer, told_to = said("assistant", "a cat"), said("user", "sure?")
    told.trajectory("t", "g")
    text(told, "t", 0, asked("sha256:cat"), answer)
    text(told, "t", 1, asked("sha256:dog", answer, told_to), said("assistant", "yes"))
    reader = BatchReader(told.commit(), where="true", advantage=None, realise=realiser)
    (batch,) = reader
    assert reader.plan().optimizer_steps == (batch.report,)
    assert reader.plan().drift == {"rendered otherwise": 1}
