"""The best list of a click model: by position, by a chain, or by branch and bound."""
