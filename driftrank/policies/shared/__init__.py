"""The shared model of a ranker: a prior for every query and item, learnt from the lists of all queries."""
