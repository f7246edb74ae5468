"""Whether a warehouse is whole."""
