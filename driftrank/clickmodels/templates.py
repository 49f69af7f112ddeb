"""The template that simulates many users of a click model."""

# ruff: noqa: F821 - the capital names are bound when a model is compiled
# mypy: ignore-errors

from __future__ import annotations


def click_many(m, alpha, key, items, clicks, masks):
    """Write the clicks of every user to a mask, a bit for each position."""
    for user in range(masks.shape[0]):
        CLICK(m, alpha, DERIVE(key, user), items, clicks)
        for i in range(items.shape[0]):
            masks[user] += clicks[i] << i
