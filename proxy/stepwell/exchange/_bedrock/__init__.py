"""Amazon Bedrock: its Converse API, and the models' own protocols inside its invoke API."""

from stepwell.exchange._bedrock.converse import BedrockConverse
from stepwell.exchange._bedrock.invoke import BedrockInvoke

__all__ = ["BedrockConverse", "BedrockInvoke"]
