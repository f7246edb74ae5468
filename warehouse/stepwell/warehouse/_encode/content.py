"""What identifies the content of a step, however it is stored.

A step's content hash is BLAKE2b, 16 bytes, over these, one after the other:

    prompt_length, number of messages          int64 each
    hash of the prompt's ids                   BLAKE2b, 16 bytes, over int32 each
    hash of the messages                       BLAKE2b, 16 bytes, over the JSON text of each, the length in bytes as an int64 before it
    hash of the tools                          BLAKE2b, 16 bytes, over their JSON text
    response ids, logprobs, response           int32 each, float32 each, JSON text; before each its length in bytes as an int64

Numbers are little-endian, what is absent is empty. A prompt mostly begins with an earlier one, whose two hashes can be gone on with, and
the tools are mostly those of the step before: a turn of a long conversation costs what is new in it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from stepwell.warehouse._tables.arrow import row_views

_SIZE = struct.Struct("<q")
_SIZES = struct.Struct("<qq")
_NOTHING = np.empty(0, np.int32)


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Hashed:
    """The two hashes of a prompt, which are never asked for more: who goes on takes copies."""

    ids: hashlib.blake2b
    id_count: int
    messages: hashlib.blake2b
    message_count: int


_EMPTY = Hashed(hashlib.blake2b(digest_size=16), 0, hashlib.blake2b(digest_size=16), 0)


def hashed(
    ids: NDArray[np.int32] | None,
    messages: Sequence[bytes],
    before: Hashed | None = None,
    same_ids: int = 0,
    same_messages: int = 0,
) -> Hashed:
    """The hashes of a prompt. The first `same_ids` and `same_messages` of it are known to be those of a conversation that the prompt of
    `before` begins: where that is all of it, they are not looked at again."""
    start = before or _EMPTY
    known = start if same_ids >= start.id_count else _EMPTY
    (own_ids := known.ids.copy()).update(_as_bytes(_NOTHING if ids is None else ids[known.id_count :], "<i4"))
    count, known = 0 if ids is None else len(ids), start if same_messages >= start.message_count else _EMPTY
    sized = [part for text in messages[known.message_count :] for part in (_SIZE.pack(len(text)), text)]
    (own_messages := known.messages.copy()).update(b"".join(sized))  # at once: many small updates take as long again
    return Hashed(own_ids, count, own_messages, len(messages))


def content_hash(
    prompt_length: int,
    tokens: NDArray[np.int32] | None,
    logprobs: NDArray[np.float32] | None,
    messages: Sequence[bytes],
    response: bytes,
    tools: bytes,
    prompt: Hashed | None = None,
) -> str:
    """32 hex digits over all that a trainer sees of a step.

    `tokens`: int32 [prompt + response]; `logprobs`: float32 [response]; each message, the response and the tools as JSON text (tools
    `null` where there are none). Layout and code versions do not enter. `prompt`: what `hashed` gives, where it is at hand.
    """
    ids = _NOTHING if tokens is None else tokens
    prompt = prompt or hashed(ids[:prompt_length], messages)
    pieces: list[bytes | memoryview] = [
        _SIZES.pack(prompt_length, len(messages)),
        prompt.ids.digest(),
        prompt.messages.digest(),
        _tools_hash(tools),
    ]
    own = _as_bytes(ids[prompt_length:], "<i4"), _as_bytes(_NOTHING if logprobs is None else logprobs, "<f4")
    for part in (*own, response):
        pieces += (_SIZE.pack(len(part)), part)
    return hashlib.blake2b(b"".join(pieces), digest_size=16).hexdigest()


def hashes_of(steps: pa.Table) -> list[str]:
    """The content hash of each row of a table of whole steps, computed from what is there now."""
    prompts, responses = row_views(steps["prompt_ids"]), row_views(steps["response_ids"])
    logprobs = row_views(steps["logprobs"])
    texts = zip(*(steps[name].to_pylist() for name in ("messages", "response", "tools")), strict=True)
    hashes = []
    for prompt, response, row_logprobs, (messages, answer, tools) in zip(
        prompts, responses, logprobs, texts, strict=True
    ):
        whole = None if prompt is None or response is None else np.concatenate([prompt, response])
        parts = [orjson.dumps(message) for message in orjson.loads(messages)] if messages else []
        hashes.append(
            content_hash(
                0 if prompt is None else len(prompt),
                whole,
                row_logprobs,
                parts,
                (answer or "").encode(),
                (tools or "null").encode(),
            )
        )
    return hashes


@lru_cache(maxsize=64)
def _tools_hash(tools: bytes) -> bytes:
    return hashlib.blake2b(tools, digest_size=16).digest()


def _as_bytes(values: NDArray[np.int32] | NDArray[np.float32], kind: str) -> memoryview:
    return np.ascontiguousarray(values, kind).view(np.uint8).data
