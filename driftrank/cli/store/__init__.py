"""Create, copy and check stores, and list their services.

\b
driftrank store create postgresql://localhost/driftrank
driftrank store copy sqlite:///driftrank.db postgresql://localhost/driftrank
driftrank store verify sqlite:///driftrank.db
driftrank store nodes postgresql://localhost/driftrank
"""
