"""The engines' own APIs for generation."""

from stepwell.exchange._engine.dialect import EngineGenerate

__all__ = ["EngineGenerate"]
