"""Anthropic's Messages API, plain and streamed: at Anthropic, on Vertex AI, and at every server that speaks it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from stepwell.exchange._anthropic.messages import asked_from
from stepwell.exchange._anthropic.rebuild import body_from, request_from
from stepwell.exchange._anthropic.reply import answer_of_response
from stepwell.exchange._body import request_object
from stepwell.exchange._dialect import WithoutFlags
from stepwell.exchange._generation import steps_of
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step

_VERTEX = re.compile(r"/publishers/anthropic/models/([^/:]+):(?:streamRawPredict|rawPredict)\Z")
_COUNTING = "count-tokens"
"""Vertex AI has the counting of tokens among its models."""


class AnthropicMessages(WithoutFlags):
    """`POST …/v1/messages`, and `…/publishers/anthropic/models/<model>:rawPredict` or `:streamRawPredict`."""

    name = "anthropic.messages"

    def matches(self, method: str, path: str) -> bool:
        return method == "POST" and (path.endswith("/v1/messages") or _path_model(path) is not None)

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        model = _path_model(urlsplit(exchange.request.url).path)
        asked = asked_from(request_object(exchange.request.body), model, exchange.added)
        return steps_of(exchange, asked, answer_of_response(exchange.response))

    def request_of(self, step: Step) -> dict[str, Any]:
        return request_from(step)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        return body_from(steps)


def _path_model(path: str) -> str | None:
    """The model that a path on Vertex AI names."""
    found = _VERTEX.search(path)
    return unquote(found[1]) if found and found[1] != _COUNTING else None
