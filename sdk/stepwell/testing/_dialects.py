"""Every dialect the scripted engine speaks."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.testing._dialect import Dialect
from stepwell.testing._wire_anthropic import AnthropicMessages
from stepwell.testing._wire_bedrock import BedrockConverse, BedrockInvoke
from stepwell.testing._wire_chat import OpenAIChat
from stepwell.testing._wire_completions import OpenAICompletions
from stepwell.testing._wire_gemini import Gemini
from stepwell.testing._wire_ollama import OllamaChat, OllamaGenerate
from stepwell.testing._wire_responses import OpenAIResponses


def new_dialects() -> Sequence[Dialect]:
    """One of each, for one app. Of two whose paths fit, the first is meant."""
    return (
        OpenAIChat(),
        OpenAICompletions(),
        OpenAIResponses(),
        AnthropicMessages(),
        Gemini(),
        OllamaChat(),
        OllamaGenerate(),
        BedrockConverse(),
        BedrockInvoke(),
    )
