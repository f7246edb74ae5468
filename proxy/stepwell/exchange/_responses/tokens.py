"""Token ids in a Responses answer: vLLM's `input_messages` and `output_messages`, when `enable_response_messages` asks for them.

    [{"type": "raw_message_tokens", "message": "<|im_start|>…", "tokens": [151644, …]}, …]

With gpt-oss the same fields hold Harmony messages, without ids. Where vLLM itself ran tools, the prompts of the later turns are among
the output: the ids are then more than usage counts, and are no single answer of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from stepwell.exchange._generation import Tokens

FIELDS = ("input_messages", "output_messages")


def tokens_of(root: Mapping[str, Any]) -> Tokens:
    """The answer's tokens. vLLM gives no logprobs with them."""
    prompt_ids, response_ids = (_ids(root.get(field)) for field in FIELDS)
    if prompt_ids is None or response_ids is None:
        return Tokens()
    usage = root.get("usage")
    counted = usage.get("output_tokens") if isinstance(usage, Mapping) else None
    problem = None
    if type(counted) is int and counted != len(response_ids):
        problem = f"{len(response_ids)} token ids came for {counted} output tokens"
    return Tokens(prompt_ids, response_ids, None, problem)


def without_ids(root: Mapping[str, Any], tokens: Tokens) -> dict[str, Any]:
    """The same fields with the ids counted instead of repeated, where they are the step's own."""
    if tokens.prompt_ids is None:
        return {}
    return {field: [{**message, "tokens": len(message["tokens"])} for message in root[field]] for field in FIELDS}


def with_ids(counted: list[Any], ids: list[int]) -> list[Any]:
    """What `without_ids` made of one field, with its ids again."""
    whole, start = [], 0
    for message in counted:
        whole.append({**message, "tokens": ids[start : start + message["tokens"]]})
        start += message["tokens"]
    return whole


def _ids(messages: object) -> list[int] | None:
    if not isinstance(messages, list) or not messages:
        return None
    if not all(isinstance(message, Mapping) and isinstance(message.get("tokens"), list) for message in messages):
        return None
    ids = list(chain.from_iterable(message["tokens"] for message in messages))
    if set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) >= 2**31:
        return None
    return ids
