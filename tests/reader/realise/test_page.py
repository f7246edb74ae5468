"""docs/realise.md against the code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.reader.read.conftest import Told
from tests.reader.realise.conftest import CHATML, said
from tests.reader.realise.test_batch_reader import rollout, text

pytest.importorskip("jinja2")

PAGE = (Path(__file__).parents[3] / "docs" / "realise.md").read_text()


def test_the_examples_run(
    tmp_path: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other, with a tokenizer and a template of ours."""
    (tmp_path / "spool").mkdir()
    told = Told(tmp_path)
    rollout(told, "t", "g", 2, 1.0)
    told.trajectory("u", "g")
    text(told, "u", 0, [said("user", {"type": "audio", "hash": "sha256:a"})], said("assistant", "no"))
    warehouse = told.commit()
    told.close()
    warehouse.datasets.create("support", "true")
    (tmp_path / "qwen3").mkdir()
    shutil.copy(tokenizer_file, tmp_path / "qwen3" / "tokenizer.json")
    (tmp_path / "qwen3" / "chat_template.jinja").write_text(CHATML)
    monkeypatch.chdir(tmp_path)
    known: dict[str, object] = {"warehouse": warehouse}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, known)
    printed = capsys.readouterr().out
    assert "2 steps train on ids that a tokenizer made from their text" in printed
    assert "'realised': 2" in printed
