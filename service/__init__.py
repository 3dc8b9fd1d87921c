"""The command line and everything that runs as a separate process."""
