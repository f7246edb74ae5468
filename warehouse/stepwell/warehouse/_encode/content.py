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
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from stepwell.warehouse._tables.arrow import row_views

_pack = struct.Struct("<q").pack
_INT32, _FLOAT32 = np.dtype("<i4"), np.dtype("<f4")
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
    own_ids, count = known.ids.copy(), 0
    if ids is not None:
        count = len(ids)
        own_ids.update(_as_bytes(ids[known.id_count :], _INT32))
    known = start if same_messages >= start.message_count else _EMPTY
    sized = list[bytes]()
    for text in messages[known.message_count :]:
        sized += (_pack(len(text)), text)
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
    known = prompt or hashed(ids[:prompt_length], messages)
    return _hash(prompt_length, known, ids[prompt_length:], _NOTHING if logprobs is None else logprobs, response, tools)


def _hash(
    prompt_length: int,
    prompt: Hashed,
    own: NDArray[np.int32],
    logprobs: NDArray[np.float32] | NDArray[np.int32],
    response: bytes,
    tools: bytes,
) -> str:
    """`own`: the ids of the response."""
    sampled, scored = _as_bytes(own, _INT32), _as_bytes(logprobs, _FLOAT32)
    pieces = (
        _SIZES.pack(prompt_length, prompt.message_count),
        prompt.ids.digest(),
        prompt.messages.digest(),
        _tools_hash(tools),
        _pack(sampled.nbytes),
        sampled.data,
        _pack(scored.nbytes),
        scored.data,
        _pack(len(response)),
        response,
    )
    return hashlib.blake2b(b"".join(pieces), digest_size=16).hexdigest()


def hashes_of(steps: pa.Table) -> list[str]:
    """The content hash of each row of a table of whole steps, computed from what is there now."""
    prompts, responses = row_views(steps["prompt_ids"]), row_views(steps["response_ids"])
    logprobs = row_views(steps["logprobs"])
    texts = zip(*(steps[name].to_pylist() for name in ("messages", "response", "tools")), strict=True)
    hashes, before = [], _Prompt(_NOTHING, b"", _EMPTY)
    for prompt, response, row_logprobs, (messages, answer, tools) in zip(
        prompts, responses, logprobs, texts, strict=True
    ):
        there = prompt is not None and response is not None
        before = before.then(prompt if there and prompt is not None else _NOTHING, (messages or "[]").encode())
        hashes.append(
            _hash(
                0 if prompt is None else len(prompt),
                before.hashed,
                response if there and response is not None else _NOTHING,
                _NOTHING if row_logprobs is None else row_logprobs,
                (answer or "").encode(),
                (tools or "null").encode(),
            )
        )
    return hashes


class _Prompt(NamedTuple):
    """A whole prompt, and the hashes of it."""

    ids: NDArray[np.int32]
    messages: bytes
    """JSON, a list."""
    hashed: Hashed

    def then(self, ids: NDArray[np.int32], messages: bytes) -> _Prompt:
        """Another one. What of it begins with all of this is neither parsed nor hashed again, but compared."""
        same_ids = len(self.ids) if np.array_equal(self.ids, ids[: len(self.ids)]) else 0
        end, same, rest = len(self.messages) - 1, 0, messages
        if messages[end : end + 1] in (b",", b"]") and messages.startswith(self.messages[:-1]):
            same, rest = self.hashed.message_count, b"[" + messages[end:].removeprefix(b",")
        texts = [orjson.dumps(message) for message in orjson.loads(rest)]
        return _Prompt(ids, messages, hashed(ids, [b""] * same + texts, self.hashed, same_ids, same))


@lru_cache(maxsize=64)
def _tools_hash(tools: bytes) -> bytes:
    return hashlib.blake2b(tools, digest_size=16).digest()


def _as_bytes(values: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    """An array whose memory is what is hashed."""
    return values if values.dtype is kind and values.flags.c_contiguous else np.ascontiguousarray(values, kind)
