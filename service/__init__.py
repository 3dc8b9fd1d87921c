"""The command line and everything that runs as a process of its own."""
