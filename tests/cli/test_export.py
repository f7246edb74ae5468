"""`stepwell export` against a real warehouse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")


@pytest.fixture
def dataset(place: Path, take_in: Callable[..., None]) -> None:
    """`my/d@1`: three steps, one of which is longer than six tokens."""
    from stepwell.warehouse import Warehouse

    ends = [[0], [1], [7] * 5]
    take_in(*({"step_id": f"s{n}", "trajectory_id": f"t{n}", "prompt_ids": [1, 2, *ends[n]]} for n in range(3)))
    Warehouse.open(place / "stepwell-data" / "warehouse").datasets.create("my/d", "true")


@pytest.mark.usefixtures("dataset")
def test_an_export_says_what_is_where_and_what_is_not(place: Path, capfd: Any) -> None:
    assert main(["export", "my/d@1", "--derived", "--to", "jsonl", "--merge", "none"]) == 0
    assert capfd.readouterr().out == "3 rows of my/d@1 in my_d-1: 3 steps, 3 loss terms, 16 tokens\n"
    lines = (place / "my_d-1" / "data" / "train-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["step_ids"] for line in lines] == [["s0"], ["s1"], ["s2"]]

    assert main(["export", "my/d", "--derived", "--max-tokens", "6", "--skip", "--out", "o", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert (said["path"], said["rows"], sum(said["not_here"].values())) == ("o", 2, 1)

    assert main(["export", "my/d", "--derived", "--out", "o"]) == 1
    error = capfd.readouterr().err
    assert "o is there already" in error and len(error.splitlines()) == 1


@pytest.mark.usefixtures("dataset")
def test_steps_of_text_are_exported_with_a_tokenizer(place: Path, capfd: Any) -> None:
    """With a tokenizer of single letters, and a template that writes what was said."""
    library = pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    from stepwell.sdk.records import Step, encoded
    from stepwell.spool import Entry, Spool
    from stepwell.warehouse import Ingest, Warehouse

    asked = {"messages": [{"role": "user", "content": "ab"}]}
    said = Step.model_validate({"step_id": "w", "trajectory_id": "w", "response": "cab"} | asked)
    spool = Spool(place / "stepwell-data" / "spool" / "words.db")
    spool.append([Entry(id="w", kind="step", body=encoded(said))])
    spool.close()
    warehouse = Warehouse.open(place / "stepwell-data" / "warehouse")
    while Ingest(warehouse, place / "stepwell-data" / "spool").run_once():
        pass
    warehouse.datasets.create("words", "step_id = 'w'")
    library.Tokenizer(library.models.BPE({letter: place for place, letter in enumerate("abc")}, [])).save("t.json")
    Path("t.jinja").write_text("{% for message in messages %}{{ message.content }}{% endfor %}")

    assert main(["export", "words", "--to", "jsonl"]) == 1
    assert "1 not trainable: no token ids" in capfd.readouterr().err
    assert main(["export", "words", "--to", "jsonl", "--tokenizer", "t.json"]) == 1
    assert "give both" in capfd.readouterr().err
    assert main(["export", "words", "--to", "jsonl", "--tokenizer", "t.json", "--template", "t.jinja"]) == 0
    (line,) = Path("words-1/data/train-00000.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert (row["input_ids"], row["loss_mask"]) == ([0, 1, 2, 0, 1], [False, False, True, True, True])
    card = Path("words-1/README.md").read_text()
    assert (
        "Steps whose ids a tokenizer made from their text, and no model sampled: 1" in card
        and "Realiser(tokenizer:" in card
    )
