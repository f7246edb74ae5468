"""Gemini's generateContent."""

from stepwell.exchange._gemini.dialect import Gemini

__all__ = ["Gemini"]
