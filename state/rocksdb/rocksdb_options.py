"""The options of RocksDB."""

from rocksdict import BlockBasedOptions, Options


def options() -> Options:
    """Options of a database and of each column family."""
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(10, block_based=False)
    found = Options(raw_mode=True)
    found.create_if_missing(create_if_missing=True)
    found.create_missing_column_families(create_missing_cfs=True)
    found.set_block_based_table_factory(blocks)
    found.set_max_background_jobs(2)
    found.set_keep_log_file_num(2)
    return found
