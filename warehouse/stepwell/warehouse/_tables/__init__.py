"""The tables: their columns, their order, and how one is opened and committed."""
