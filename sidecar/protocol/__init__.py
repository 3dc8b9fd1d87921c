"""The protocol between clients, sidecar and workers."""
