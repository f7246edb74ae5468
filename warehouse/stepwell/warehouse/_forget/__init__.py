"""Steps out of a warehouse, for good."""
