"""A prefix tree to be looked at: its nodes as flat arrays, and the largest of them as rectangles."""
