"""PySpark: the retain operator, its state, its sinks, and reading state back."""
