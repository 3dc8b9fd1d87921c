"""Stores of the sidecar: ordered maps whose writes are all or none."""
