"""Policies that compare items: BatchRank, BubbleRank, TopRank."""
