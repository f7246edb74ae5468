"""Parts of the benchmark of the way in."""
