"""Answers about what was served and learnt. Nothing here changes anything."""
