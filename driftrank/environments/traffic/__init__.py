"""Traffic: all queries of a ranker, its world, and its users."""
