"""Turns of conversations as entries of a spool: as the gateway writes a submitted step, and as the proxy writes a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from benchmarks.store._talk import Turn

from stepwell.exchange import Request, Response, request_entry, response_entry
from stepwell.spool import Entry, Spool

_AT = 1_760_000_000_000_000_000
_JSON = [("content-type", "application/json")]
_BATCH = 50


def step_entry(turn: Turn) -> Entry:
    """`sdk.submit_step` of a turn, through the gateway."""
    fields = {
        "step_id": turn.id,
        "trajectory_id": turn.trajectory,
        "messages": turn.messages,
        "response": {"role": "assistant", "content": turn.text},
        "prompt_ids": turn.prompt,
        "response_ids": turn.response,
        "logprobs": turn.logprobs,
        "finish_reason": "stop",
        "policy": "bench",
        "policy_version": 1,
        "fingerprint": "bench",
        "sampling": {"temperature": 1.0, "top_p": 1.0},
    }
    body = orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    return Entry(f"step.{turn.id}", "step", b'{"format":1}', body)


def arrow_entries(turns: Iterable[Turn], many: int = 64) -> Iterator[Entry]:
    """The same submissions, `many` to an Arrow record."""
    for number, some in enumerate(batched(turns, many)):
        yield Entry(f"batch.{some[0].id}.{number}", "steps", b'{"format":1}', _stream(some))


def _stream(turns: Sequence[Turn]) -> bytes:
    columns: dict[str, Any] = {
        "step_id": [turn.id for turn in turns],
        "trajectory_id": [turn.trajectory for turn in turns],
        "messages": [orjson.dumps(turn.messages).decode() for turn in turns],
        "response": [orjson.dumps({"role": "assistant", "content": turn.text}).decode() for turn in turns],
        "prompt_ids": _lists([turn.prompt for turn in turns], pa.int32()),
        "response_ids": _lists([turn.response for turn in turns], pa.int32()),
        "logprobs": _lists([turn.logprobs for turn in turns], pa.float32()),
        "policy_version": pa.array([1] * len(turns), pa.int64()),
        "sampling": ['{"temperature":1.0,"top_p":1.0}'] * len(turns),
    }
    constant = {"finish_reason": "stop", "policy": "bench", "fingerprint": "bench"}
    batch = pa.RecordBatch.from_pydict({**columns, **{name: [value] * len(turns) for name, value in constant.items()}})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _lists(rows: Sequence[Any], kind: pa.DataType) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.concatenate(rows), kind))


def exchange_entries(turn: Turn) -> list[Entry]:
    """A call of an agent to vLLM, asked for ids and logprobs, as the proxy records it."""
    asked = {
        "model": "bench",
        "messages": turn.messages,
        "temperature": 1.0,
        "logprobs": True,
        "return_token_ids": True,
    }
    request = Request("POST", "https://llm.example/v1/chat/completions", _JSON, orjson.dumps(asked), _AT)
    response = Response(200, _JSON, _reply(turn), "complete", _AT + 10**9, _AT + 10**8)
    asked_of = request_entry(turn.id, request, dialect="openai.chat", trajectory_id=turn.trajectory, engine="vllm")
    return [asked_of, response_entry(turn.id, response)]


def _reply(turn: Turn) -> bytes:
    logprobs = [
        {"token": f"token {place}", "logprob": value, "bytes": None, "top_logprobs": []}
        for place, value in enumerate(turn.logprobs.tolist())
    ]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": turn.text},
        "finish_reason": "stop",
        "token_ids": turn.response,
        "logprobs": {"content": logprobs},
    }
    usage = {"prompt_tokens": turn.prompt.size, "completion_tokens": turn.response.size}
    whole = {
        "id": f"chatcmpl-{turn.id}",
        "object": "chat.completion",
        "model": "bench",
        "choices": [choice],
        "prompt_token_ids": turn.prompt,
        "usage": usage,
    }
    return orjson.dumps(whole, option=orjson.OPT_SERIALIZE_NUMPY)


def fill(spool: Spool, entries: Iterable[Entry]) -> tuple[int, int]:
    """Append them; how many, and how many bytes of content."""
    count = size = 0
    for part in batched(entries, _BATCH):
        spool.append(part)
        count += len(part)
        size += sum(len(entry.body) for entry in part)
    return count, size


def new_spool(folder: Path, name: str = "producer") -> Spool:
    """Without a bound: what is measured is ingest, not the spool."""
    return Spool(folder / f"{name}.db", max_bytes=1 << 40)
