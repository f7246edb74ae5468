"""Datasets: frozen selections, and what they say of themselves."""
