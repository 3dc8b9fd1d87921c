"""Metrics of RocksDB where it stores state: what stalls and stops writes."""

from collections.abc import Iterable, Mapping
from typing import Final

from idlestate.metrics.families import PREFIX, MetricKind, Name
from idlestate.metrics.samples import Samples


def _gauge(name: str, text: str) -> Name:
    return Name(f"{PREFIX}rocksdb_{name}", MetricKind.GAUGE, text, ())


PROPERTIES: Final[Mapping[Name, str]] = {
    _gauge(
        "is_write_stopped", "Whether RocksDB has stopped writes (above 0) or accepts them (0)."
    ): "is-write-stopped",
    _gauge(
        "background_errors", "Errors of flushes and compactions of RocksDB since it was opened."
    ): "background-errors",
    _gauge(
        "actual_delayed_write_rate_bytes",
        "Bytes per second to which RocksDB slows writes down; 0 if it does not.",
    ): "actual-delayed-write-rate",
    _gauge("num_running_compactions", "Running compactions of RocksDB."): "num-running-compactions",
    _gauge("num_running_flushes", "Running flushes of RocksDB."): "num-running-flushes",
    _gauge(
        "estimate_pending_compaction_bytes", "Estimated bytes that RocksDB has yet to compact."
    ): "estimate-pending-compaction-bytes",
    _gauge(
        "num_immutable_mem_table", "Full memtables that RocksDB has yet to flush."
    ): "num-immutable-mem-table",
    _gauge(
        "live_sst_files_bytes", "Size in bytes of the SST files of RocksDB; without blob files."
    ): "live-sst-files-size",
    _gauge(
        "cur_size_all_mem_tables_bytes", "Size in bytes of the memtables of RocksDB."
    ): "cur-size-all-mem-tables",
}
"""Each metric, and the property of RocksDB that it shows, without its prefix."""


def rocksdb_samples(stores: Iterable[Mapping[str, int]]) -> Samples:
    """The samples: sums over stores; none where no store is a RocksDB.

    Args:
        stores: the properties of each store by name, as in `PROPERTIES`; empty for other stores.
    """
    every = [store for store in stores if store]
    return {
        name: {(): sum(store.get(called, 0) for store in every)} if every else {}
        for name, called in PROPERTIES.items()
    }
