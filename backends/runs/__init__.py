"""Runs: the rows of a table as sorted columns in immutable segments, and how they are merged."""
