"""The realiser that `--tokenizer`, `--template` and their like describe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.cli._realiser import realiser_of
from stepwell.errors import InvalidRecord

pytest.importorskip("jinja2")
pytest.importorskip("pyarrow")

SOURCE = "{{ bos_token }}{{ messages[0].content }}"


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    library = pytest.importorskip("tokenizers")
    letters = {letter: place for place, letter in enumerate(["<s>", "<pad>", *"abc"])}
    made = library.Tokenizer(library.models.BPE(letters, []))
    made.add_special_tokens(["<pad>"])
    made.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path / "tokenizer.json")


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jinja"
    path.write_text(SOURCE)
    return path


def test_none_is_asked_for() -> None:
    assert realiser_of(None, None, (), ()) is None


def test_a_file_of_each_and_what_the_template_is_given(tokenizer: str, template: Path) -> None:
    variables = ["bos_token=<s>", "enable_thinking=false", 'tools_in={"user": 1}', "date=2026-01-02=x"]
    made = realiser_of(tokenizer, template, variables, ["image=<pad>"])
    assert made is not None
    chat = made._maker.template
    assert chat.source == SOURCE
    assert chat.variables == {
        "bos_token": "<s>",
        "enable_thinking": False,
        "tools_in": {"user": 1},
        "date": "2026-01-02=x",
    }
    assert made._maker.placeholders == {"image": 1}


def test_a_models_own_settings_bring_its_special_tokens(tokenizer: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": SOURCE, "bos_token": {"content": "<s>"}, "eos_token": "</s>"}))
    made = realiser_of(tokenizer, path, ["eos_token=<end>"], ())
    assert made is not None and made._maker.template.variables == {"bos_token": "<s>", "eos_token": "<end>"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{}", "has no chat_template"),
        ("[]", "has no chat_template"),
        ('{"chat_template": []}', "several"),
        ("{", "no chat"),
    ],
)
def test_settings_without_a_template_are_refused(tokenizer: str, tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(content)
    with pytest.raises(InvalidRecord, match=why):
        realiser_of(tokenizer, path, (), ())


def test_half_of_it_is_refused(template: Path) -> None:
    for asked, missing in (((None, template, (), ()), "tokenizer"), (("x", None, (), ()), "template")):
        with pytest.raises(InvalidRecord, match="give both") as refused:
            realiser_of(*asked)
        assert refused.value.field == missing
    with pytest.raises(InvalidRecord, match="give both"):
        realiser_of(None, None, ["a=b"], ())


def test_what_cannot_be_read_is_named(tokenizer: str, template: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRecord, match=r"cannot read .*nowhere\.jinja"):
        realiser_of(tokenizer, tmp_path / "nowhere.jinja", (), ())
    with pytest.raises(InvalidRecord, match=r"name a tokenizer\.json"):
        realiser_of(str(tmp_path / "nowhere.json"), template, (), ())
    with pytest.raises(InvalidRecord, match="'eos' is not of the form NAME=VALUE"):
        realiser_of(tokenizer, template, ["eos"], ())


def test_an_encoding_of_tiktoken_by_name(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tiktoken")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(InvalidRecord, match="no encoding"):
        realiser_of("tiktoken:nothing-of-the-kind", template, (), ())
