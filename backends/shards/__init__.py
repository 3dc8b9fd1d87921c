"""Shards: the record of a shard, the step that applies a batch to it, and kinds of operators."""
