"""Warehouses of an older schema."""
