"""Keyed state on the named tables of a shard: runs in a folder, with a working set in memory."""
