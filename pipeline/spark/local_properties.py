"""Local properties of Spark, which the driver sets and every task of a batch reads."""

CHECKPOINT_PROPERTY = "idlestate.checkpoint"
"""The checkpoint of the task's query; set when the query starts."""
