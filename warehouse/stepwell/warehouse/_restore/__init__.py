"""Whole steps, from differences and payloads."""
