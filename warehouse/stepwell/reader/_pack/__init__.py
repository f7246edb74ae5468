"""Which steps of one optimizer step are computed together: cuts of large trees, packs within a budget, ranks with equal work."""
