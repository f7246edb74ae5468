"""What an optimizer step will be made of: how it came out, and what lineage says before a token is read."""
