"""The realiser that options of a command describe: a tokenizer, a chat template as models bring it, and what the template is given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.errors import InvalidRecord

if TYPE_CHECKING:
    from stepwell.reader import Realiser

_TIKTOKEN = "tiktoken:"
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


def realiser_of(
    tokenizer: str | None, template: Path | None, variables: Sequence[str], placeholders: Sequence[str]
) -> Realiser | None:
    """None without any of these.

    Args:
        tokenizer: Path of a `tokenizer.json`, or `tiktoken:` and the name of a model or encoding.
        template: A Jinja file, or a `tokenizer_config.json`, which brings its special tokens with it.
        variables: `NAME=VALUE`; a value is JSON, or else a text.
        placeholders: `KIND=TEXT`.

    Raises:
        InvalidRecord: one of tokenizer and template is missing, cannot be read or used; no `=` where there has to be one.
        MissingExtra: the packages of the extra `tokenizers` are not installed.
    """
    if not (tokenizer or template or variables or placeholders):
        return None
    if tokenizer is None or template is None:
        missing = "tokenizer" if tokenizer is None else "template"
        raise InvalidRecord(
            missing, "is missing: ids are made of text by a tokenizer and a chat template, so give both"
        )
    from stepwell.reader import ChatTemplate, Realiser, TiktokenEncoder, TokenizersEncoder

    source, given = _template(template)
    given |= {name: _value(text) for name, text in _pairs("template-variable", variables)}
    name = tokenizer.removeprefix(_TIKTOKEN)
    encoder = TokenizersEncoder(tokenizer) if name == tokenizer else TiktokenEncoder(name)
    return Realiser(encoder, ChatTemplate(source, **given), placeholders=dict(_pairs("placeholder", placeholders)))


def _template(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRecord("template", f"cannot read {path}: {error}") from error
    if path.suffix != ".json":
        return text, {}
    try:
        known = json.loads(text)
        source, tokens = known["chat_template"], {name: known.get(name) for name in _SPECIAL}
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRecord("template", f"{path} has no chat_template; name the .jinja file of the model") from error
    if not isinstance(source, str):
        raise InvalidRecord("template", f"{path} has several chat templates; write the one you want to a file")
    texts = {name: token["content"] if isinstance(token, dict) else token for name, token in tokens.items()}
    return source, {name: token for name, token in texts.items() if token is not None}


def _pairs(option: str, given: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise InvalidRecord(option, f"{name!r} is not of the form NAME=VALUE")
    return [(name, value) for name, _, value in pairs]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
