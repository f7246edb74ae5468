"""Lineage: whose step it is, and which one it continues."""
