"""Shards: the record of a shard, the step that a batch makes it take, and kinds of operators."""
