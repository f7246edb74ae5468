"""Ollama's own API."""

from stepwell.exchange._ollama.dialect import OllamaChat, OllamaGenerate

__all__ = ["OllamaChat", "OllamaGenerate"]
