"""Ways to run many cells. All share one contract: cells in, events out, records in the store."""
