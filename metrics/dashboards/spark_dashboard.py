"""Spark's own stateful operators, of every query in the session: what grows without retention."""

from idlestate.metrics.dashboards.dashboard_model import Board, Kind, Panel, PanelRow, Query, Unit

_EACH = "{{query}} {{state_operator}}"

_STATE = PanelRow(
    "State without retention of idlestate",
    (
        Panel(
            title="Rows in state",
            description="A curve that only rises is state that Spark never removes. Add a"
            " watermark or a TTL, or replace the operator by retain or"
            " deduplicate.",
            unit=Unit.COUNT,
            queries=(
                Query("max by (query, state_operator) (idlestate_spark_state_rows{$of})", _EACH),
            ),
        ),
        Panel(
            title="Memory",
            description="Memory that Spark reports for its state. When it comes near the"
            " executors' memory, use the RocksDB state store, or expire keys.",
            unit=Unit.BYTES,
            queries=(
                Query(
                    "max by (query, state_operator) (idlestate_spark_state_memory_bytes{$of})",
                    _EACH,
                ),
            ),
        ),
        Panel(
            title="Removed nothing for 6 hours",
            description="Rows of operators that hold state and removed no row. These grow with"
            " every new key.",
            unit=Unit.COUNT,
            kind=Kind.TABLE,
            queries=(
                Query(
                    "max by (query, state_operator) (idlestate_spark_state_rows{$of}) and on"
                    " (query, state_operator) (max by (query, state_operator)"
                    " (increase(idlestate_spark_state_rows_removed_total{$of}[6h])) == 0)",
                    "rows",
                ),
            ),
        ),
        Panel(
            title="Rows updated and removed",
            description="Per second. Much more updated than removed over days is growth,"
            " unless the same keys are updated again and again.",
            unit=Unit.ROWS_PER_SECOND,
            queries=(
                Query(
                    "max by (query, state_operator)"
                    " (rate(idlestate_spark_state_rows_updated_total{$of}[$__rate_interval]))",
                    f"updated {_EACH}",
                ),
                Query(
                    "max by (query, state_operator)"
                    " (rate(idlestate_spark_state_rows_removed_total{$of}[$__rate_interval]))",
                    f"removed {_EACH}",
                ),
            ),
        ),
    ),
)

_QUERIES = PanelRow(
    "Queries",
    (
        Panel(
            title="Time spent on removals",
            description="Share of the batch time in which Spark looks for rows to remove. When"
            " it dominates, state is too large for its scans: use retain, which"
            " knows what is due.",
            unit=Unit.SHARE,
            queries=(
                Query(
                    "sum by (query) (rate(idlestate_spark_state_removal_seconds_total{$of}"
                    "[$__rate_interval])) / sum by (query)"
                    " (rate(idlestate_spark_batch_seconds_total{$of}[$__rate_interval]) > 0)",
                    "{{query}}",
                ),
            ),
        ),
        Panel(
            title="Input rows",
            description="Per second. 0 while the source has data means that the query is stuck.",
            unit=Unit.ROWS_PER_SECOND,
            queries=(
                Query(
                    "max by (query)"
                    " (rate(idlestate_spark_input_rows_total{$of}[$__rate_interval]))",
                    "{{query}}",
                ),
            ),
        ),
        Panel(
            title="Last batch and time between batches",
            description="Where both are equal, each batch starts when the last one ends: the query"
            " falls behind if input grows; add cores.",
            unit=Unit.SECONDS,
            queries=(
                Query(
                    "max by (query) (idlestate_spark_last_batch_seconds{$of})", "batch {{query}}"
                ),
                Query(
                    "max by (query) (idlestate_spark_batch_interval_seconds{$of})",
                    "start to start {{query}}",
                ),
            ),
        ),
        Panel(
            title="Rows dropped by the watermark",
            description="Per second. Spark drops rows that are later than the watermark"
            " without a trace; raise the delay of withWatermark if they matter.",
            unit=Unit.ROWS_PER_SECOND,
            queries=(
                Query(
                    "max by (query, state_operator)"
                    " (rate(idlestate_spark_rows_dropped_by_watermark_total{$of}"
                    "[$__rate_interval]))",
                    _EACH,
                ),
            ),
        ),
    ),
)

SPARK = Board(
    uid="spark",
    title="idlestate / Spark state",
    description="State of Spark's own stateful operators, which idlestate does not expire.",
    label="query",
    found_by="idlestate_spark_input_rows_total",
    rows=(_STATE, _QUERIES),
)
