"""A tokenizer and an encoding of our own, byte by byte with a few merges, and a template in the manner of ChatML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stepwell.reader._realise.encode import TiktokenEncoder, TokenizersEncoder

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|image_pad|>")
PATTERN = r"\n+|\w+|[^\w\n]+"
MERGES = ("th", "he", "assistant", "user", "\n\n")

CHATML = """
{%- if tools %}<|im_start|>tools
{{ tools | tojson }}<|im_end|>
{% endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
            {%- if message.reasoning_content and loop.last %}
                {{- '<think>' + message.reasoning_content + '</think>' }}
            {%- endif %}
            {{- message.content }}
            {%- for call in message.tool_calls or [] %}
                {{- '<call>' + call.function | tojson + '</call>' }}
            {%- endfor %}
            {{- '<|im_end|>' }}
        {%- endgeneration %}
    {%- elif message.content is string %}
        {{- message.content + '<|im_end|>' }}
    {%- else %}
        {%- for part in message.content %}
            {{- part.text if part.type == 'text' else '<|image_pad|>' }}
        {%- endfor %}
        {{- '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
UNMARKED = CHATML.replace("{%- generation %}", "").replace("{%- endgeneration %}", "")


def said(role: str, *parts: str | dict[str, Any]) -> dict[str, Any]:
    """A canonical message."""
    return {"role": role, "content": [{"type": "text", "text": one} if isinstance(one, str) else one for one in parts]}


def steps(*rows: dict[str, Any]) -> pa.Table:
    """As the view `steps` gives them; of each `messages`, `response`, and what else is not as usual."""
    made: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        texts = {name: None if row.get(name) is None else json.dumps(row[name]) for name in ("messages", "response")}
        tools = json.dumps(row["tools"]) if row.get("tools") else None
        made.append({"step_id": f"s{number}", **texts, "tools": tools, "status": row.get("status", "ok")})
        made[-1]["untrainable_reason"] = row.get("untrainable_reason", "no token ids")
    kinds = pa.schema(
        [(name, pa.string()) for name in ("step_id", "messages", "response", "tools", "status", "untrainable_reason")]
    )
    return pa.Table.from_pylist(made, schema=kinds)


@pytest.fixture(scope="session")
def tiktoken_encoder() -> TiktokenEncoder:
    """Ids 0 to 255 are bytes, then merges, then special tokens."""
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([value]): value for value in range(256)}
    for merge in MERGES:
        for end in range(2, len(merge) + 1):
            ranks.setdefault(merge[:end].encode(), len(ranks))
    special = {text: len(ranks) + place for place, text in enumerate(SPECIAL)}
    return TiktokenEncoder(tiktoken.Encoding("ours", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special))


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tokenizer.json` of a byte-level BPE. It would cut texts at 8 tokens and fill them up, as such files may say."""
    library = pytest.importorskip("tokenizers")
    byte_level = library.pre_tokenizers.ByteLevel
    vocabulary = {letter: place for place, letter in enumerate(sorted(byte_level.alphabet()))}
    merges: list[tuple[str, str]] = []
    for merge in MERGES:
        shown = merge.replace("\n", "\u010a")
        for end in range(2, len(shown) + 1):
            if shown[:end] not in vocabulary:
                vocabulary[shown[:end]] = len(vocabulary)
                merges.append((shown[: end - 1], shown[end - 1]))
    tokenizer = library.Tokenizer(library.models.BPE(vocabulary, merges))
    split = library.pre_tokenizers.Split(library.Regex(PATTERN), "isolated")
    tokenizer.pre_tokenizer = library.pre_tokenizers.Sequence([split, byte_level(False, use_regex=False)])
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    path = tmp_path_factory.mktemp("ours") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(params=["tiktoken", "tokenizers"])
def encoder(request: pytest.FixtureRequest) -> TiktokenEncoder | TokenizersEncoder:
    """Both, one after the other."""
    if request.param == "tiktoken":
        found: TiktokenEncoder = request.getfixturevalue("tiktoken_encoder")
        return found
    return TokenizersEncoder(request.getfixturevalue("tokenizer_file"), "ours")
