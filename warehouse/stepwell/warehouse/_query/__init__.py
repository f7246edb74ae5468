"""SQL over what was committed, and streams of steps."""
