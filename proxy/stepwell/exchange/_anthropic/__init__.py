"""Anthropic's Messages API."""

from stepwell.exchange._anthropic.dialect import AnthropicMessages

__all__ = ["AnthropicMessages"]
