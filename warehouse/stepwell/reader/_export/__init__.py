"""An epoch of a dataset, written down: files that need no Stepwell to read, with a dataset card."""
