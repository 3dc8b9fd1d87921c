"""The sidecar: a process beside the job that keeps the state of operators."""
