"""Keyed state, operator state and their snapshots, with Flink's meaning, in any Python program."""
