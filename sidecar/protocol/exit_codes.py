"""How a sidecar's process ends."""

STOPPED, FAILED, IN_USE = 0, 1, 75
"""It was told to; it cannot run; another sidecar has its directory."""
