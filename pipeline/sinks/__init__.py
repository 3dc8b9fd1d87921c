"""Sinks that write each row once: in folders, or in Spark's own files."""
