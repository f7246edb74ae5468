"""The completions API from before chat."""

from stepwell.exchange._completions.dialect import OpenAICompletions

__all__ = ["OpenAICompletions"]
