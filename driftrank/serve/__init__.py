"""A ranking service: rank, feedback, and a list that keeps learning.

The log of what happened is the truth; learners are folds over it.
"""
