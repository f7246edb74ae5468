"""Token ids and logprobs in a chat answer, as the engines give them, and whether they can be trusted.

vLLM: `prompt_token_ids` at the root, `choices[].token_ids`, `choices[].logprobs.content[].logprob`, `choices[].weight_versions`.
SGLang (not streamed): `choices[].prompt_token_ids`, `choices[].response_token_ids`. llama.cpp: an `id` in each logprob entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tokens:
    """Ids and logprobs of one choice (None: the engine gave none), and the reason, if any, not to train on them."""

    prompt_ids: list[int] | None
    response_ids: list[int] | None
    logprobs: list[float] | None
    problem: str | None


def tokens_of(root: Mapping[str, Any], choice: Mapping[str, Any], completion_tokens: int | None) -> Tokens:
    """The choice's tokens. `completion_tokens` is what usage says this choice alone has, where that is known."""
    entries = _entries(choice)
    prompt_ids = _ids(root.get("prompt_token_ids")) or _ids(choice.get("prompt_token_ids"))
    response_ids = _ids(choice.get("token_ids")) or _ids(choice.get("response_token_ids")) or _entry_ids(entries)
    if prompt_ids is None or response_ids is None:
        return Tokens(None, None, None, "the engine gave no token ids")
    if completion_tokens is not None and completion_tokens != len(response_ids):
        # Seen where a tool parser swallows chunks: ids that are missing cannot be put back.
        missing = f"{len(response_ids)} token ids came for {completion_tokens} completion tokens"
        return Tokens(prompt_ids, response_ids, None, missing)
    logprobs, problem = _logprobs(entries, response_ids)
    return Tokens(prompt_ids, response_ids, logprobs, problem)


def _logprobs(entries: list[Mapping[str, Any]], ids: list[int]) -> tuple[list[float] | None, str | None]:
    if not entries:
        return None, None
    if len(entries) != len(ids):
        return None, f"{len(entries)} logprobs came for {len(ids)} token ids"
    named = [_named_id(entry) for entry in entries]
    shifted = next((place for place, id_ in enumerate(named) if id_ is not None and id_ != ids[place]), None)
    if shifted is not None:
        return None, f"logprob {shifted} is of token {named[shifted]}, the token id there is {ids[shifted]}"
    values = [entry.get("logprob") for entry in entries]
    if not all(isinstance(value, (int, float)) for value in values):
        return None, "a logprob is no number"
    return [float(value) for value in values if value is not None], None


def _entries(choice: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return [entry for entry in content if isinstance(entry, Mapping)] if isinstance(content, list) else []


def _entry_ids(entries: list[Mapping[str, Any]]) -> list[int] | None:
    return _ids([entry.get("id") for entry in entries])


def _named_id(entry: Mapping[str, Any]) -> int | None:
    """The id that an entry itself names: `id` (llama.cpp), or a token of the form `token_id:N` (vLLM, when asked)."""
    if isinstance(entry.get("id"), int):
        return int(entry["id"])
    _, prefix, number = str(entry.get("token", "")).rpartition("token_id:")
    return int(number) if prefix and number.isdecimal() else None


def _ids(value: object) -> list[int] | None:
    if not isinstance(value, list) or not value or not all(type(id_) is int and 0 <= id_ < 2**31 for id_ in value):
        return None
    return value


def policy_of(root: Mapping[str, Any], choice: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """The weight version the engine says sampled this: as an ordered number where it is one, and its label as given.

    An answer that spans several versions has the label `first..last` and no number: it is of no single policy.
    """
    spans = choice.get("weight_versions") or root.get("weight_versions") or ()
    labels = [str(span["version"]) for span in spans if isinstance(span, Mapping) and "version" in span]
    if not labels and root.get("weight_version") is not None:
        labels = [str(root["weight_version"])]
    if not labels:
        return None, None
    if len(set(labels)) > 1:
        return None, f"{labels[0]}..{labels[-1]}"
    return (int(labels[0]) if labels[0].lstrip("-").isdecimal() else None), labels[0]
