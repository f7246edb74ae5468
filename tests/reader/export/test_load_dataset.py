"""An export is a dataset to `datasets`, with the columns and types that its card names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepwell.reader import export_dataset
from stepwell.warehouse import Warehouse

ARROW = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}


def front_matter(folder: Path) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed, which reads a card's front matter")
    _, text, _ = (folder / "README.md").read_text().split("---\n", 2)
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@pytest.mark.parametrize("merge", ["tree", "trajectory"])
def test_the_card_names_the_files_and_the_types_of_their_columns(stored: Warehouse, tmp_path: Path, merge: Any) -> None:
    done = export_dataset(stored, "d", 1, tmp_path / "out", merge=merge)
    card = front_matter(done.path)
    assert card["pretty_name"] == "d@1"
    [config] = card["configs"]
    [files] = config["data_files"]
    assert sorted(str(file.relative_to(done.path)) for file in done.path.glob(files["path"])) == list(done.files)
    [split] = card["dataset_info"]["splits"]
    assert (files["split"], split["name"], split["num_examples"]) == ("train", "train", done.rows)
    schema = pq.read_schema(done.path / done.files[0])
    assert [
        (item["name"], ARROW[item["dtype"]] if "dtype" in item else pa.list_(ARROW[item["list"]]))
        for item in card["dataset_info"]["features"]
    ] == [(field.name, field.type) for field in schema]


@pytest.mark.parametrize("to", ["parquet", "jsonl", "lance"])
@pytest.mark.parametrize("merge", ["tree", "trajectory"])
def test_it_loads(stored: Warehouse, tmp_path: Path, to: Any, merge: Any) -> None:
    datasets = pytest.importorskip(
        "datasets", reason="datasets is not installed: the card's configuration is checked above"
    )
    done = export_dataset(stored, "d", 1, tmp_path / "out", to=to, merge=merge)
    table = datasets.load_dataset(str(done.path), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(table) == done.rows
    assert list(table.features) == [item["name"] for item in front_matter(done.path)["dataset_info"]["features"]]
    assert sum(map(len, table["input_ids"])) == done.tokens
