"""What Spark's Python API lacks: settings, types, versions, workers and files of a session."""
