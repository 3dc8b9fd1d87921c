"""Worker processes that keep the tables of a range of shards."""
