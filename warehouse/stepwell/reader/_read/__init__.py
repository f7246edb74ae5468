"""`BatchReader` and what it gives: one `TreeBatches` per optimizer step, streamed from a warehouse."""
