"""OpenAI's three APIs; chat as the provider speaks it, and as vLLM does when it is asked for token ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.traffic._conversation import (
    ARGUMENTS,
    CALL,
    MODEL,
    PIECES,
    PLAIN,
    PROMPT,
    PROMPT_IDS,
    PROMPT_TOKENS,
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

_DONE = b"data: [DONE]\n\n"
_CHUNK = {
    "id": "chatcmpl-0123456789abcdef",
    "created": 1760000000,
    "model": MODEL,
    "system_fingerprint": "fp_0123456789",
}


def _usage(completion: int) -> Json:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": completion,
        "total_tokens": PROMPT_TOKENS + completion,
        "prompt_tokens_details": {"cached_tokens": 11_000},
    }


def _called(id_: str, name: str, arguments: str) -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_messages() -> list[Json]:
    """The conversation in chat's words."""
    messages: list[Json] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    for turn in TURNS:
        call = _called(turn.id, turn.name, dumps(turn.arguments).decode())
        messages.append({"role": "assistant", "content": turn.text, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": turn.id, "content": turn.result})
    return messages


def _logprob(place: int, text: str) -> Json:
    return {"token": text, "logprob": token(place)[1], "bytes": list(text.encode()), "top_logprobs": []}


class Chat:
    """Chat completions. `ids`: as vLLM with `return_token_ids` and `logprobs`."""

    name = "openai.chat"
    path = "/v1/chat/completions"
    streamed_type = "text/event-stream; charset=utf-8"

    def __init__(self, ids: bool = False) -> None:
        self._ids = ids

    def request(self, stream: bool) -> Json:
        tools = [{"type": "function", "function": tool} for tool in TOOLS]
        asked = {"model": MODEL, "messages": chat_messages(), "tools": tools, "temperature": 1.0, "max_tokens": 4096}
        wanted = {"return_token_ids": True, "logprobs": True} if self._ids else {}
        return {**asked, **wanted, **({"stream": True, "stream_options": {"include_usage": True}} if stream else {})}

    def plain(self) -> bytes:
        message = {"role": "assistant", "content": PLAIN, "tool_calls": [_called(CALL.id, CALL.name, ARGUMENTS)]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls", **self._tokens([*TEXTS, *PIECES])}
        root = {"object": "chat.completion", "choices": [choice], "usage": _usage(len(TEXTS) + len(PIECES))}
        return dumps({**_CHUNK, **root, **({"prompt_token_ids": PROMPT_IDS} if self._ids else {})})

    def _tokens(self, texts: list[str], start: int = 0) -> Json:
        if not self._ids:
            return {"logprobs": None}
        places = range(start, start + len(texts))
        logprobs = [_logprob(place, text) for place, text in zip(places, texts, strict=True)]
        return {"token_ids": [token(place)[0] for place in places], "logprobs": {"content": logprobs}}

    def _chunk(self, delta: Json, texts: list[str], start: int = 0, root: Json | None = None) -> bytes:
        tokens = self._tokens(texts, start) if texts else {}
        choice = {"index": 0, "delta": delta, **tokens, "finish_reason": None}
        return event({**_CHUNK, "object": "chat.completion.chunk", "choices": [choice], **(root or {})})

    def opening(self) -> bytes:
        ids = {"prompt_token_ids": PROMPT_IDS} if self._ids else {}
        return self._chunk({"role": "assistant", "content": ""}, [], root=ids)

    def said(self, place: int, text: str) -> bytes:
        return self._chunk({"content": text}, [text], place)

    def lean(self, text: str) -> bytes:
        return event({"choices": [{"index": 0, "delta": {"content": text}}]})

    def called(self, pieces: Iterable[str]) -> bytes:
        first = {"index": 0, **_called(CALL.id, CALL.name, "")}
        rest = [
            self._chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, [piece], len(TEXTS) + place)
            for place, piece in enumerate(pieces)
        ]
        return b"".join([self._chunk({"tool_calls": [first]}, []), *rest])

    def closing(self, deltas: int) -> bytes:
        last = {**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
        return event(last) + event({**_CHUNK, "choices": [], "usage": _usage(deltas)}) + _DONE


class Completions:
    """Completions, as vLLM speaks them when it is asked for token ids."""

    name = "openai.completions"
    path = "/v1/completions"
    streamed_type = "text/event-stream; charset=utf-8"

    def request(self, stream: bool) -> Json:
        asked = {"model": MODEL, "prompt": PROMPT, "max_tokens": 4096, "temperature": 1.0}
        return {**asked, "return_token_ids": True, "logprobs": 1, **({"stream": True} if stream else {})}

    def _choice(self, texts: list[str], start: int, **fields: Any) -> Json:
        found = [token(place) for place in range(start, start + len(texts))]
        logprobs = {
            "tokens": texts,
            "token_logprobs": [logprob for _, logprob in found],
            "text_offset": [0] * len(texts),
            "top_logprobs": [{text: logprob} for text, (_, logprob) in zip(texts, found, strict=True)],
        }
        ids = [id_ for id_, _ in found]
        return {
            "index": 0,
            "text": "".join(texts),
            "logprobs": logprobs,
            "token_ids": ids,
            "finish_reason": None,
            **fields,
        }

    def plain(self) -> bytes:
        choice = self._choice(TEXTS, 0, finish_reason="stop", prompt_token_ids=PROMPT_IDS)
        return dumps({**_CHUNK, "object": "text_completion", "choices": [choice], "usage": _usage(len(TEXTS))})

    def opening(self) -> bytes:
        return event({**_CHUNK, "choices": [{"index": 0, "text": "", "prompt_token_ids": PROMPT_IDS}]})

    def said(self, place: int, text: str) -> bytes:
        return event({**_CHUNK, "object": "text_completion", "choices": [self._choice([text], place)]})

    def lean(self, text: str) -> bytes:
        return event({"choices": [{"index": 0, "text": text}]})

    def called(self, pieces: Iterable[str]) -> bytes:  # noqa: ARG002
        return b""

    def closing(self, deltas: int) -> bytes:
        last = {**_CHUNK, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}
        return event(last) + event({**_CHUNK, "choices": [], "usage": _usage(deltas)}) + _DONE


_TEXT_AT = {"item_id": "msg_0123456789abcdef", "output_index": 0, "content_index": 0}
_CALL_AT = {"item_id": "fc_0123456789abcdef", "output_index": 1}


class Responses:
    """Responses."""

    name = "openai.responses"
    path = "/v1/responses"
    streamed_type = "text/event-stream; charset=utf-8"

    def request(self, stream: bool) -> Json:
        items: list[Json] = [_item("user", "input_text", TASK)]
        for turn in TURNS:
            named = {"call_id": turn.id, "name": turn.name, "arguments": dumps(turn.arguments).decode()}
            items.append(_item("assistant", "output_text", turn.text))
            items.append({"type": "function_call", **named})
            items.append({"type": "function_call_output", "call_id": turn.id, "output": turn.result})
        tools = [{"type": "function", "strict": False, **tool} for tool in TOOLS]
        asked = {"model": MODEL, "instructions": SYSTEM, "input": items, "tools": tools, "store": False}
        return {**asked, **({"stream": True} if stream else {})}

    def _response(self, output: list[Json], status: str, **fields: Any) -> Json:
        asked = self.request(False)
        echoed = {name: asked[name] for name in ("instructions", "tools", "model", "store")}  # as the API does
        return {
            "id": "resp_0123456789abcdef",
            "object": "response",
            "status": status,
            "output": output,
            **echoed,
            **fields,
        }

    def _ended(self) -> Json:
        counts = {"input_tokens": PROMPT_TOKENS, "output_tokens": 800, "total_tokens": PROMPT_TOKENS + 800}
        return self._response([_said_item(PLAIN), _call_item(ARGUMENTS)], "completed", usage=counts)

    def plain(self) -> bytes:
        return dumps(self._ended())

    def _event(self, kind: str, **fields: Any) -> bytes:
        return event({"type": kind, "sequence_number": 17, **fields}, kind)

    def opening(self) -> bytes:
        part = {"type": "output_text", "text": "", "annotations": []}
        return b"".join(
            [
                self._event("response.created", response=self._response([], "in_progress")),
                self._event("response.in_progress", response=self._response([], "in_progress")),
                self._event("response.output_item.added", output_index=0, item={**_said_item(""), "content": []}),
                self._event("response.content_part.added", **_TEXT_AT, part=part),
            ]
        )

    def said(self, place: int, text: str) -> bytes:  # noqa: ARG002
        return self._event("response.output_text.delta", **_TEXT_AT, delta=text, logprobs=[], obfuscation="Xy3kd0")

    def lean(self, text: str) -> bytes:
        return event({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text})

    def called(self, pieces: Iterable[str]) -> bytes:
        kind = "response.function_call_arguments"
        return b"".join(
            [
                self._event("response.output_text.done", **_TEXT_AT, text=PLAIN),
                self._event("response.output_item.done", output_index=0, item=_said_item(PLAIN)),
                self._event("response.output_item.added", output_index=1, item=_call_item("")),
                *(self._event(f"{kind}.delta", **_CALL_AT, delta=piece, obfuscation="Xy3kd0") for piece in pieces),
                self._event(f"{kind}.done", **_CALL_AT, arguments=ARGUMENTS),
                self._event("response.output_item.done", output_index=1, item=_call_item(ARGUMENTS)),
            ]
        )

    def closing(self, deltas: int) -> bytes:  # noqa: ARG002
        return self._event("response.completed", response=self._ended())


def _item(role: str, kind: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _said_item(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": _TEXT_AT["item_id"],
        "status": "completed",
        "role": "assistant",
        "content": content,
    }


def _call_item(arguments: str) -> Json:
    named = {"call_id": CALL.id, "name": CALL.name, "arguments": arguments}
    return {"type": "function_call", "id": _CALL_AT["item_id"], "status": "completed", **named}
