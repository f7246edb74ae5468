"""Copies of a warehouse on another store."""
