"""The client of a sidecar for Python programs other than Spark jobs."""
