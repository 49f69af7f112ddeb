"""The documentation site: pages of docs/, and pages that are made of docstrings, registries and the leaderboard."""
