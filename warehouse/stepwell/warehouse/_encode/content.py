"""What identifies the content of a step, however it is stored."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from stepwell.warehouse._tables.arrow import row_views

_SIZE = struct.Struct("<q")


def content_hash(
    prompt_length: int,
    tokens: NDArray[np.int32] | None,
    logprobs: NDArray[np.float32] | None,
    messages: Sequence[bytes],
    response: bytes,
    tools: bytes,
) -> str:
    """32 hex digits over all that a trainer sees of a step.

    `tokens`: int32 [prompt + response]; `logprobs`: float32 [response]; each message, the response and the tools as JSON text (tools
    `null` where there are none). Layout and code versions do not enter.
    """
    token_bytes = b"" if tokens is None else np.ascontiguousarray(tokens, "<i4").view(np.uint8).data
    logprob_bytes = b"" if logprobs is None else np.ascontiguousarray(logprobs, "<f4").view(np.uint8).data
    pieces: list[bytes | memoryview] = [f"{prompt_length} {len(messages)}".encode()]
    for part in (token_bytes, logprob_bytes, *messages, response, tools):
        pieces += (_SIZE.pack(len(part)), part)
    # At once: many small updates take as long again.
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
