"""The spools of a machine in, flushes out."""
