"""The sidecar's core: operators, batches, writes, sweeps; knows no network."""
