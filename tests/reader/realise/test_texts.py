"""What token ids say, by tokenizers that lie somewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stepwell.reader._realise.texts as texts_module
from stepwell.reader import TokenTexts

NAMED: dict[str, Any] = {"source": "engine", "fingerprint": "vllm:org/model", "model": "org/model"}


@pytest.mark.parametrize("name", ["vllm:org--model", "org--model"])
def test_a_list_of_texts_in_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(["a", " b", "<|end|>"]))
    assert TokenTexts(tmp_path).of([1, 0, 2, 3, 1], **NAMED) == [" b", "a", "<|end|>", "\ufffd", " b"]


def test_no_tokenizer_no_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    texts = TokenTexts(tmp_path)
    assert texts.of([1], **NAMED) is None and TokenTexts().of([1], source=None, fingerprint=None, model=None) is None
    assert texts.of([1], source="tokenizer:nobody", fingerprint=None, model="gpt-4o") is None
    (tmp_path / "org--model.json").write_text("{}")  # what is no tokenizer is none
    assert TokenTexts(tmp_path).of([1], **NAMED) is None
    outside = {**NAMED, "model": "../secret", "fingerprint": None}
    (tmp_path.parent / "secret.json").write_text('["x"]')
    assert TokenTexts(tmp_path).of([0], **outside) is None


def test_one_that_is_put_there_later_is_found_and_only_a_few_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    texts, read = TokenTexts(tmp_path), list[str]()
    of_file = texts_module._of_file

    def noted(file: Path) -> Any:
        read.extend([file.name] * file.is_file())
        return of_file(file)

    monkeypatch.setattr(texts_module, "_of_file", noted)

    def says(model: str, fingerprint: str | None = None) -> list[str] | None:
        return texts.of([0], source="engine", fingerprint=fingerprint, model=model)

    assert says("m0") is None
    for number in range(texts_module._REMEMBERED + 1):
        (tmp_path / f"m{number}.json").write_text(json.dumps([f"t{number}"]))
        assert says(f"m{number}") == [f"t{number}"]
    assert [says("m8", f"of:{number}") for number in range(20)] == [["t8"]] * 20  # one model's, by whatever name
    assert read == [f"m{number}.json" for number in range(9)]
    assert says("m1") == ["t1"] and says("m0") == ["t0"] and read[9:] == ["m0.json"]


def test_a_tokenizer_of_the_hub_s_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"hello": 0, "world": 1, "?": 2}, unk_token="?"))
    snapshot = tmp_path / "models--org--model" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    made.save(str(snapshot / "tokenizer.json"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert TokenTexts(None).of([1, 0], **NAMED) == ["world", "hello"]
