"""OpenAI chat completions, and every server that speaks them."""

from stepwell.exchange._chat.dialect import OpenAIChat

__all__ = ["OpenAIChat"]
