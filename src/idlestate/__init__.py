"""Keyed state that forgets on purpose: retention for PySpark Structured Streaming."""
