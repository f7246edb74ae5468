"""The OpenAI Responses API, over HTTP and over a WebSocket."""

from stepwell.exchange._responses.dialect import OpenAIResponses

__all__ = ["OpenAIResponses"]
