"""The sidecar's process: data plane, control plane, background jobs, signals."""
