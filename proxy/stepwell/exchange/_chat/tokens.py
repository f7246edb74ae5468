"""Token ids and logprobs in a chat answer, as the engines give them, and whether they can be trusted.

vLLM: `prompt_token_ids` at the root, `choices[].token_ids`, `choices[].logprobs.content[].logprob`, `choices[].weight_versions`.
SGLang: `choices[].prompt_token_ids`, `choices[].response_token_ids`, root `metadata.weight_version`, `choices[].meta_info`; streamed,
and where asked so, root `sglext.input_ids` and `sglext.output_ids`, the latter a list per choice.
llama.cpp: an `id` in each logprob entry.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from stepwell.exchange._generation import Choice, Tokens
from stepwell.sdk.records import MAX_LOGPROB, packed_ids

_NAMED = "token_id:"
_TOKEN_ID = re.compile(rf"{_NAMED}([0-9]{{1,10}})")
_INT64 = re.compile(r"-?[0-9]{1,18}")
_LABEL = 120
"""Most characters of a weight version's name that are kept."""


def tokens_of(root: Mapping[str, Any], choice: Mapping[str, Any], completion_tokens: int | None) -> Tokens:
    """The choice's tokens. `completion_tokens` is what usage says this choice alone has, where that is known."""
    entries = _entries(choice) or _meta_entries(choice)
    beside, beside_prompt = _beside(root, choice)
    prompt_ids = _ids(root.get("prompt_token_ids")) or _ids(choice.get("prompt_token_ids")) or _ids(beside_prompt)
    response_ids = (
        _ids(choice.get("token_ids")) or _ids(choice.get("response_token_ids")) or _ids(beside) or _entry_ids(entries)
    )
    if prompt_ids is None or response_ids is None:
        return Tokens()
    if completion_tokens is not None and completion_tokens != len(response_ids):
        # Seen where a tool parser swallows chunks: ids that are missing cannot be put back.
        missing = f"{len(response_ids)} token ids came for {completion_tokens} completion tokens"
        return Tokens(prompt_ids, response_ids, None, missing)
    logprobs, problem = _logprobs(entries, response_ids)
    return Tokens(prompt_ids, response_ids, logprobs, problem)


def check_together(choices: Sequence[Choice], completion_tokens: int | None) -> None:
    """Usage counts the tokens of several choices together: of ids that are missing nobody knows whose they were."""
    came = [len(choice.tokens.response_ids) for choice in choices if choice.tokens.response_ids is not None]
    if completion_tokens is None or len(came) != len(choices) or len(came) < 2 or sum(came) == completion_tokens:
        return
    missing = f"{sum(came)} token ids came for {completion_tokens} completion tokens of {len(came)} choices"
    for choice in choices:
        choice.tokens = replace(choice.tokens, problem=choice.tokens.problem or missing)


def left_over(choice: Mapping[str, Any], tokens: Tokens) -> dict[str, Any]:
    """What a choice says of tokens and `tokens` does not: it is kept as it came. Alternatives are said nowhere else."""
    names = ["logprobs"] if tokens.logprobs is None or _has_alternatives(choice) else []
    if tokens.response_ids is None:
        names += ["token_ids", "response_token_ids", "prompt_token_ids"]
    return {name: choice[name] for name in names if choice.get(name)}


def _has_alternatives(choice: Mapping[str, Any]) -> bool:
    logprobs = choice.get("logprobs")
    others = isinstance(logprobs, Mapping) and any(value for key, value in logprobs.items() if key != "content")
    tops = [top for entry in _entries(choice) if (top := entry.get("top_logprobs"))]
    return others or any(isinstance(top, list) and len(top) > 1 for top in tops)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _beside(root: Mapping[str, Any], choice: Mapping[str, Any]) -> tuple[Any, Any]:
    """SGLang's ids beside the choices: of this choice, which its place names, and of the prompt."""
    beside = root.get("sglext")
    if not isinstance(beside, Mapping):
        return None, None
    outputs, place = _listed(beside.get("output_ids")), choice.get("index", 0)
    nested = isinstance(outputs[place], list) if type(place) is int and 0 <= place < len(outputs) else False
    return outputs[place] if nested else None, beside.get("input_ids")


def _meta_entries(choice: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """SGLang's own form of logprobs, `[logprob, id, text]` each, as entries."""
    meta = choice.get("meta_info")
    triples = _listed(meta.get("output_token_logprobs")) if isinstance(meta, Mapping) else []
    return [{"logprob": triple[0], "id": triple[1]} if len(_listed(triple)) >= 2 else {} for triple in triples]


def _logprobs(entries: list[Mapping[str, Any]], ids: list[int]) -> tuple[list[float] | None, str | None]:
    if not entries:
        return None, None
    if len(entries) != len(ids):
        return None, f"{len(entries)} logprobs came for {len(ids)} token ids"
    shifted = next((pair for pair in _named_ids(entries) if pair[1] != ids[pair[0]]), None)
    if shifted is not None:
        return None, f"logprob {shifted[0]} is of token {shifted[1]}, the token id there is {ids[shifted[0]]}"
    said: list[Any] = [entry.get("logprob") for entry in entries]
    if set(map(type, said)) == {float} and math.isfinite(sum(said)) and max(said) <= MAX_LOGPROB:
        return said, None  # a sum is finite only where all of its parts are
    values = [_logprob(value) for value in said]
    wrong = next((place for place, value in enumerate(values) if value is None), None)
    if wrong is not None:
        return None, f"logprob {wrong} is no logarithm of a probability: {entries[wrong].get('logprob')!r:.40}"
    return [value for value in values if value is not None], None


def _logprob(value: object) -> float | None:
    """Rounding can lift the logarithm of 1 a little above 0 (as far as a `Step` takes it); more is no probability."""
    return float(value) if type(value) in (int, float) and math.isfinite(value) and value <= MAX_LOGPROB else None  # type: ignore[arg-type,operator]


def _entries(choice: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, list):
        return []
    return [entry if isinstance(entry, dict) else {} for entry in content]  # none is left out: places matter


def _entry_ids(entries: list[Mapping[str, Any]]) -> list[int] | None:
    return _ids([entry.get("id") for entry in entries])


def _named_ids(entries: list[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Place and id of each entry that names its id. That none does, as mostly, is found out without looking at each."""
    tokens, ids = [entry.get("token") for entry in entries], [entry.get("id") for entry in entries]
    if ids.count(None) == len(ids) and _NAMED not in "".join(map(str, tokens)):
        return []
    return [(place, id_) for place, entry in enumerate(entries) if (id_ := named_id(entry)) is not None]


def named_id(entry: Mapping[str, Any]) -> int | None:
    """The id that an entry itself names: `id` (llama.cpp), or a token of the form `token_id:N` (vLLM, when asked)."""
    if type(id_ := entry.get("id")) is int:
        return id_
    token = entry.get("token")
    named = _TOKEN_ID.fullmatch(token) if isinstance(token, str) and token.startswith(_NAMED) else None
    return int(named[1]) if named else None


def _ids(value: object) -> list[int] | None:
    """The list, if it is one of ids and nothing else."""
    ids = packed_ids(value) if isinstance(value, list) else None
    # Of what JSON has, `true` and `false` alone pass for integers. To write the list and look for them is faster than to ask each.
    return None if ids is None or b"e" in orjson.dumps(value) else ids


def policy_of(root: Mapping[str, Any], choice: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """The weight version the engine says sampled this: as an ordered number where it is one, and its label as given.

    An answer that spans several versions has the label `first..last` and no number: it is of no single policy.
    """
    labels = next(
        (
            labels
            for source in (choice, choice.get("meta_info"), root, root.get("metadata"))
            if (labels := _labels(source))
        ),
        None,
    )
    if not labels:
        return None, None
    if len(set(labels)) > 1:
        return None, f"{labels[0]}..{labels[-1]}"
    return (int(labels[0]) if _INT64.fullmatch(labels[0]) else None), labels[0]


def _labels(source: object) -> list[str]:
    """Every weight version that one part of the answer names, in its order: as spans, as a list, or as one."""
    if not isinstance(source, Mapping):
        return []
    spans = source.get("weight_versions")
    named = spans if isinstance(spans, list) and spans else [source.get("weight_version")]
    labels = [span.get("version") if isinstance(span, Mapping) else span for span in named]
    return [str(label)[:_LABEL] for label in labels if type(label) in (int, str) and label != ""]
