"""RocksDB under a sidecar: what people alert on."""

from idlestate.metrics.dashboards.dashboard_model import Panel, PanelRow, Query, Unit

STORE = PanelRow(
    "Store of the sidecar (RocksDB)",
    (
        Panel(
            title="Stalls and errors",
            description="Above 0 when writes are stopped, and the number of background errors."
            " Check the disk: full, slow or broken.",
            unit=Unit.COUNT,
            warn_at=1,
            queries=(
                Query('max(idlestate_rocksdb_is_write_stopped{job=~"$job"})', "writes stopped"),
                Query('max(idlestate_rocksdb_background_errors{job=~"$job"})', "errors"),
            ),
        ),
        Panel(
            title="Compaction and flush",
            description="Work in progress. If it never returns to 0, the disk is too slow for"
            " the writes.",
            unit=Unit.COUNT,
            queries=(
                Query('max(idlestate_rocksdb_num_running_compactions{job=~"$job"})', "compactions"),
                Query('max(idlestate_rocksdb_num_running_flushes{job=~"$job"})', "flushes"),
                Query('max(idlestate_rocksdb_num_immutable_mem_table{job=~"$job"})', "mem tables"),
            ),
        ),
        Panel(
            title="Bytes of the store",
            description="Files, memory tables, and bytes that wait for compaction. Waiting"
            " bytes that only grow lead to a stall.",
            unit=Unit.BYTES,
            queries=(
                Query('max(idlestate_rocksdb_live_sst_files_bytes{job=~"$job"})', "files"),
                Query(
                    'max(idlestate_rocksdb_cur_size_all_mem_tables_bytes{job=~"$job"})', "memory"
                ),
                Query(
                    'max(idlestate_rocksdb_estimate_pending_compaction_bytes{job=~"$job"})',
                    "wait for compaction",
                ),
            ),
        ),
        Panel(
            title="Write limit",
            description="Bytes per second to which RocksDB slows writes; 0 is no limit. Above"
            " 0, compaction is behind: use a faster disk.",
            unit=Unit.BYTES_PER_SECOND,
            queries=(
                Query(
                    'max(idlestate_rocksdb_actual_delayed_write_rate_bytes{job=~"$job"})', "limit"
                ),
            ),
        ),
    ),
)
