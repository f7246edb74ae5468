"""Ollama's two APIs, and llama.cpp's own."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.traffic._conversation import (
    CALL,
    MODEL,
    PLAIN,
    PROMPT,
    PROMPT_IDS,
    SYSTEM,
    TASK,
    TEXTS,
    TOOLS,
    TURNS,
    Json,
    dumps,
    event,
    token,
)

_PIECE = {"model": MODEL, "created_at": "2026-04-01T12:00:00.123456789Z"}
_COUNTS = {
    "total_duration": 4_000_000_000,
    "prompt_eval_count": 12_000,
    "eval_count": 800,
    "eval_duration": 3_000_000_000,
}
_ENDED = {"done": True, "done_reason": "stop", **_COUNTS}


class OllamaChat:
    """`/api/chat`, streamed as lines."""

    name = "ollama.chat"
    path = "/api/chat"
    streamed_type = "application/x-ndjson"

    def request(self, stream: bool) -> Json:
        messages: list[Json] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
        for turn in TURNS:
            call = {"function": {"name": turn.name, "arguments": turn.arguments}}
            messages.append({"role": "assistant", "content": turn.text, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_name": turn.name, "content": turn.result})
        tools = [{"type": "function", "function": tool} for tool in TOOLS]
        return {"model": MODEL, "messages": messages, "tools": tools, "options": {"temperature": 1}, "stream": stream}

    def _line(self, message: Json, ended: Json) -> bytes:
        return dumps({**_PIECE, "message": {"role": "assistant", **message}, **ended}) + b"\n"

    def _call(self) -> Json:
        return {"tool_calls": [{"function": {"name": CALL.name, "arguments": CALL.arguments}}]}

    def plain(self) -> bytes:
        return self._line({"content": PLAIN, **self._call()}, _ENDED)

    def opening(self) -> bytes:
        return b""

    def said(self, place: int, text: str) -> bytes:  # noqa: ARG002
        return self._line({"content": text}, {"done": False})

    def lean(self, text: str) -> bytes:
        return dumps({"message": {"content": text}}) + b"\n"

    def called(self, pieces: Iterable[str]) -> bytes:  # noqa: ARG002 - a call comes whole
        return self._line({"content": "", **self._call()}, {"done": False})

    def closing(self, deltas: int) -> bytes:  # noqa: ARG002
        return self._line({"content": ""}, _ENDED)


class OllamaGenerate:
    """`/api/generate`, streamed as lines."""

    name = "ollama.generate"
    path = "/api/generate"
    streamed_type = "application/x-ndjson"

    def request(self, stream: bool) -> Json:
        return {"model": MODEL, "prompt": PROMPT, "options": {"temperature": 1}, "stream": stream}

    def plain(self) -> bytes:
        return dumps({**_PIECE, "response": PLAIN, **_ENDED, "context": PROMPT_IDS})

    def opening(self) -> bytes:
        return b""

    def said(self, place: int, text: str) -> bytes:  # noqa: ARG002
        return dumps({**_PIECE, "response": text, "done": False}) + b"\n"

    def lean(self, text: str) -> bytes:
        return dumps({"response": text}) + b"\n"

    def called(self, pieces: Iterable[str]) -> bytes:  # noqa: ARG002
        return b""

    def closing(self, deltas: int) -> bytes:  # noqa: ARG002
        return dumps({**_PIECE, "response": "", **_ENDED, "context": PROMPT_IDS}) + b"\n"


class Engine:
    """llama.cpp's `/completion`, asked for ids and logprobs."""

    name = "engine.generate"
    path = "/completion"
    streamed_type = "text/event-stream"

    def request(self, stream: bool) -> Json:
        return {"prompt": PROMPT_IDS, "n_predict": 4096, "return_tokens": True, "n_probs": 1, "stream": stream}

    def _piece(self, texts: list[str], start: int) -> Json:
        found = [(text, *token(place)) for place, text in enumerate(texts, start)]
        probabilities = [
            {"id": id_, "token": text, "bytes": list(text.encode()), "logprob": logprob, "top_logprobs": []}
            for text, id_, logprob in found
        ]
        said = {"index": 0, "content": "".join(texts), "tokens": [id_ for _, id_, _ in found]}
        counts = {"tokens_predicted": start + len(texts), "tokens_evaluated": len(PROMPT_IDS)}
        return {**said, "stop": False, "id_slot": 0, **counts, "completion_probabilities": probabilities}

    def plain(self) -> bytes:
        return dumps({**self._piece(TEXTS, 0), "stop": True, "stop_type": "eos", "model": MODEL})

    def opening(self) -> bytes:
        return b""

    def said(self, place: int, text: str) -> bytes:
        return event(self._piece([text], place))

    def lean(self, text: str) -> bytes:
        return event({"content": text, "tokens": [1234], "stop": False})

    def called(self, pieces: Iterable[str]) -> bytes:  # noqa: ARG002
        return b""

    def closing(self, deltas: int) -> bytes:
        counts = {"tokens_predicted": deltas, "tokens_evaluated": len(PROMPT_IDS)}
        return event({"content": "", "tokens": [], "stop": True, "stop_type": "eos", "model": MODEL, **counts})
