"""Keyed state in the memory of this process."""
