"""Stores of the sidecar: ordered maps with atomic writes."""
