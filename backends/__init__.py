"""Keyed state: the table, its runs and codecs, and where they are kept."""
