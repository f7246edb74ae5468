"""One committer for all who write, and what runs beside it."""
