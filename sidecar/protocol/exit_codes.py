"""Exit codes of a sidecar's process."""

STOPPED, FAILED, IN_USE = 0, 1, 75
"""It was stopped; it cannot run; another sidecar uses its directory."""
