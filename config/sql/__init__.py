"""Queries in SQL, read into the arguments of the operators; nothing here needs Spark."""
