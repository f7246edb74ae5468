"""The user's rules for what must not be stored."""
