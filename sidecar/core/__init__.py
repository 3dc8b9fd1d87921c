"""The sidecar's core: operators, batches, writes, sweeps; independent of the network."""
