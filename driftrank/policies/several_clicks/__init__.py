"""Policies for several clicks per list: dependent click model and position-based model."""
