"""Keyed state in RocksDB."""
