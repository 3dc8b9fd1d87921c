"""The sidecar's process: data plane, control plane, ticks, signals."""
