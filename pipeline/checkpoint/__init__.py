"""The contents of a checkpoint other than runs, and operations on it while no query runs."""
