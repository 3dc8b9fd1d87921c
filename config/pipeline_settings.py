"""The sections of policies and pipelines in a configuration file: fields, types, defaults.

The models check each field alone. `policy_rules` and `pipeline_rules` check fields against each
other, as far as they could be read, so that one wrong field hides no other problem. A field's name
in the file is its alias: the attribute `ttl_ms` is `ttl` in the file.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from idlestate.config import text_kinds as text
from idlestate.config import time_kinds as times
from idlestate.config.field_kinds import (
    Backend,
    Flag,
    Format,
    JoinHow,
    Keep,
    NullKey,
    OnError,
    Operator,
    Time,
    Update,
)
from idlestate.config.idle_window import Idle
from idlestate.config.listen_address import ListenAddress
from idlestate.config.number_kinds import FrameRows, Share, whole
from idlestate.config.section import Section
from idlestate.config.size_kinds import Size
from idlestate.retention.budget import Budget

METRICS_PORT = 9464


class BudgetLimits(Section):
    """How large an operator's state should become; metrics and alerts forecast when it is full."""

    keys: Annotated[int, whole(1, 1_000_000_000_000)] | None = Field(
        default=None, examples=["5000000"]
    )
    """The most live keys; default: no limit."""
    bytes: Size | None = Field(default=None, examples=["2GB"])
    """The most bytes of state, such as 512MB or 2GiB; default: no limit."""

    @property
    def limits(self) -> Budget:
        """Both limits; 0 where there is none."""
        return Budget(self.keys or 0, self.bytes or 0)


class PolicyBody(Section):
    """Retention rules. Omitted settings default to those in `defaults`."""

    idle: Idle | None = None
    """{min: 30m, max: 45m}, or one duration (12h means 12h to 18h), or never."""
    update: Update | None = None
    """Which accesses reset the idle time; default on_create_and_write."""
    ttl_ms: times.RuleSpan | None = Field(default=None, alias="ttl")
    """A life ends this long after its last write; default never."""
    ttl_update: Update | None = None
    """With on_read_and_write, ttl counts from reads too; default on_create_and_write."""
    max_lifetime_ms: times.RuleSpan | None = Field(default=None, alias="max_lifetime")
    """A life ends this long after its creation; default never."""
    time: Time | None = None
    """Whether the rules use event time or processing time; default event."""
    min_gap_ms: times.Span | None = Field(default=None, alias="min_gap")
    """The minimum of idle max - min; default 5m. It spreads removals out."""
    max_shrink: Share | None = None
    """A change to this policy is refused if it would remove more than this share of the live keys
    at once; default 50%."""
    remember_ms: times.Memory | None = Field(default=None, alias="remember")
    """How long an expired key is remembered, to count returning keys; default: the idle max,
    else ttl, else max_lifetime."""
    budget: BudgetLimits | None = None
    """How large the state of each operator with this policy may become; it expires nothing."""


class Selector(Section):
    """Assigns a policy to the operators and states that it matches."""

    operator: text.Glob = Field(examples=['"*"'])
    """Name of an operator, or a pattern with * and ?."""
    state: text.Glob = "*"
    """Name of a state, or a pattern with * and ?; an operator's aggregates are `aggregates`."""
    policy: text.Name = Field(examples=["sessions"])
    """The policy."""


class SourceSection(Section):
    """Where the events come from: a folder or pattern of files."""

    path: text.Place = Field(examples=["build/clicks"])
    """Folder, file or pattern; relative paths count from the working directory."""
    format: Format = Field(examples=["parquet"])
    """parquet, json (one object a line) or csv; json and csv also as .gz."""
    ddl: text.Ddl | None = Field(default=None, alias="schema")
    """Columns and types, as Spark DDL or as a mapping; default: taken from the files."""
    files_per_batch: Annotated[int, whole(1, 1_000_000)] | None = None
    """At most this many new files per batch; default: all new files."""
    header: Flag = True
    """csv: whether each file starts with a line of column names."""
    delimiter: text.Character = ","
    """csv: the character between values."""
    escape: text.Character = "\\"
    """csv: the character before a quote in a quoted value; '"' if such quotes are doubled."""
    timestamp_format: text.TimePattern | None = None
    """json, csv: Spark's pattern for timestamps; default ISO 8601."""


class NamedSource(SourceSection):
    """A table of a query: where its rows come from, and its event time, delay and policy.

    The fields that are not about files default to those of the pipeline.
    """

    event_time: text.Column | None = Field(default=None, examples=["ordered_at"])
    """Timestamp column with the event time; may be omitted if the query names it."""
    delay_ms: times.Span | None = Field(default=None, alias="delay")
    """How far a row may lag behind the newest one."""
    idle_after_ms: times.Span | None = Field(default=None, alias="idle_after", examples=["15m"])
    """In a join: how long this input holds the watermark back while it has no rows."""
    policy: text.Name | None = None
    """The policy of its rows; a hint of the query takes precedence."""


class SecondInput(Section):
    """The second input of an operator."""

    source: SourceSection = Field(examples=["{path: build/prices, format: parquet}"])
    """Where its rows come from."""
    event_time: text.Column = Field(examples=["valid_from"])
    """Timestamp column with their event time."""
    delay_ms: times.Span | None = Field(default=None, alias="delay")
    """How far a row may lag behind the newest one; default: the pipeline's delay."""
    idle_after_ms: times.Span | None = Field(default=None, alias="idle_after", examples=["15m"])
    """How long this input holds the watermark back while it has no rows; default: forever."""


class Right(SecondInput):
    """The second input of join and co_process: the right rows."""

    policy: text.Name | None = None
    """join: the policy of right rows; default: that of left rows."""
    columns: text.OrderColumns = ()
    """co_process: the columns of right rows that the function receives; default: all of simple
    types."""


class Versions(SecondInput):
    """The second input of join_asof: the newest row of each key is kept."""

    columns: text.OrderColumns = ()
    """Their columns in the result; default: all except the keys."""


class Sinks(Section):
    """Where the rows go. Each sink needs its own folder."""

    results: text.Place = Field(examples=["build/out/results"])
    """The latest aggregates of each key; for deduplicate, the first record of each life; for over,
    functions and joins, all rows."""
    expired: text.Place | None = None
    """One row per life that ended."""
    rejects: text.Place | None = None
    """Rows that were late, malformed, or whose event time or key is unusable."""
    format: Format = "parquet"
    """parquet, json or csv."""


class Metrics(Section):
    """Where a running pipeline serves its Prometheus metrics."""

    port: Annotated[int, whole(0, 65_535)] = METRICS_PORT
    """TCP port; 0 selects a free one."""
    address: ListenAddress = "127.0.0.1"
    """IP address to listen on."""


def _takes_source_or_sources(schema: dict[str, Any]) -> None:
    """A file has one of them; a query's sources are `source` and `right` once it is read."""
    schema["required"].remove("source")
    schema["anyOf"] = [{"required": ["source"]}, {"required": ["sources", "query"]}]


class Pipeline(Section):
    """A query over one source or two; its name is the operator's uid."""

    model_config = ConfigDict(json_schema_extra=_takes_source_or_sources)

    source: SourceSection = Field(examples=["{path: build/clicks, format: parquet}"])
    """Where the events come from."""
    sources: dict[text.Table, NamedSource] = Field(
        default_factory=dict,
        min_length=1,
        examples=["{orders: {path: build/orders, format: parquet}}"],
    )
    """With a query, instead of source: where its tables come from, by name; two for a join."""
    event_time: text.Column | None = None
    """Timestamp column with the event time; required unless the policy sets time: processing."""
    delay_ms: times.Span = Field(default=0, alias="delay")
    """How far a row may lag behind the newest event; required with event time."""
    idle_after_ms: times.Span | None = Field(default=None, alias="idle_after", examples=["15m"])
    """With two inputs: how long `source` holds the watermark back while it has no rows; default:
    forever."""
    max_ahead_ms: times.PositiveSpan = Field(default=3_600_000, alias="max_ahead")
    """Rows further ahead of the clock than this are rejected; default 1h."""
    min_event_time_ms: times.FirstEventTime = Field(
        default=times.FIRST_EVENT_TIME_MS, alias="min_event_time"
    )
    """Rows before this are rejected; default "1970-01-02", the earliest value allowed."""
    order: text.OrderColumns = ()
    """Columns that order rows of a key with the same event time; with join_asof, versions."""
    in_order: Flag | None = None
    """Whether rows wait until the watermark reaches them and count in order of event time;
    default: true with window session(...) and, in event time, for co_process and for functions
    with on_timer or on_timers; else false."""
    read_when: text.Column | None = None
    """Boolean column; rows in which it is true only read the key."""
    query: text.Query | None = None
    """A query in SQL over `source` or `sources`; it replaces key, aggregates, kind, keep,
    order, window, rows, range, right, versions, between and how."""
    key: text.KeyColumns = Field(default=(), examples=["[session_id]"])
    """The columns that make up the key; required without a query."""
    null_key: NullKey = "keep"
    """keep: null is a key like any other; reject: rows with a null key column go to rejects."""
    kind: Operator = "retain"
    """retain keeps aggregates of each key; deduplicate lets one record of each life through; over
    adds aggregates of the key so far to each row; process calls a function with each row,
    co_process with each row of source and right;
    join emits all pairs of rows of source and right; join_asof joins each row to the newest row
    of its key in versions."""
    keep: Keep = "first"
    """deduplicate: the first record at once (to results), or the last at the end (to expired)."""
    aggregates: dict[text.Column, text.Aggregate] = Field(
        default_factory=dict, min_length=1, examples=["{events: count}"]
    )
    """Aggregates per key, by the name of their column: count, sum(x), max(event_time), ...;
    required with retain and over."""
    rows: FrameRows | None = Field(default=None, examples=["10"])
    """over: count only the last N rows, including the row itself; or `unbounded`."""
    range_ms: times.Span | None = Field(default=None, alias="range", examples=["1h"])
    """over: count rows that are at most this long before the row."""
    function: text.ClassName | None = Field(default=None, examples=["my_job.alerts:Alert"])
    """process, co_process: the class of the function, as module:Class; required."""
    output: text.Ddl | None = Field(default=None, examples=['"id string, n bigint"'])
    """process, co_process: names and types of the columns that the function yields; required."""
    columns: text.OrderColumns = ()
    """process, co_process: the columns that the function receives; default: all of simple types."""
    on_error: OnError = "stop"
    """process, co_process: if the function fails, stop the query, or reject the record: it goes to
    rejects."""
    versions: Versions | None = None
    """join_asof: the second input; required."""
    right: Right | None = None
    """join: the second input; required."""
    between: times.Between | None = Field(default=None, examples=['["-30m", "1h"]'])
    """join: the smallest and the largest time from a left row to a matching right row; default:
    rows match as long as both are kept by their policies."""
    how: JoinHow = "inner"
    """join: inner, left, right, full, semi or anti; join_asof: whether rows without a version are
    emitted too (left) or not (inner)."""
    renamed: dict[text.Column, text.Column] = Field(default_factory=dict)
    """New to old names of renamed aggregates or states, which keep their state; entries may stay
    afterwards."""
    window: times.Window | None = Field(default=None, examples=["tumbling(10m)"])
    """Aggregates per key and window; it replaces the policy: tumbling(10m), hopping(10m, 1m),
    cumulate(1h, 1m) or session(30m). Fixed by the first start."""
    fire_after_ms: times.Span | None = Field(default=None, alias="fire_after", examples=["1m"])
    """The first result of a window comes when the newest event is this long past its end, at most
    delay; default: with every batch that changes the window."""
    policy: text.Name | None = None
    """The policy; default: that of the most specific matching selector."""
    budget: BudgetLimits | None = None
    """How large the state may become; default: the policy's budget."""
    sinks: Sinks = Field(examples=["{results: build/out/results}"])
    """Where the rows go."""
    backend: Backend = "spark"
    """Where state is kept: spark (in the checkpoint), or rocksdb or heap (in a sidecar)."""
    checkpoint: text.LocalPlace = Field(examples=["build/checkpoint"])
    """The path of the query's checkpoint, which holds the state."""
    runs: text.RunsPlace | None = Field(default=None, examples=["s3://bucket/folder"])
    """Where the files of state are stored instead; fixed by the first start."""
    state_partitions: Annotated[int, whole(1, 10_000)] | None = None
    """Partitions of the state; fixed by the first start. Default: one per core."""
    shards: Annotated[int, whole(1, 32_768)] | None = None
    """Shards of the state, a multiple of state_partitions; fixed by the first start."""
    trigger_ms: times.Trigger = Field(default=None, alias="trigger")
    """available_now (process all available input, then stop; the default) or the time between
    batches."""
    metrics: Metrics = Metrics()
    """Where Prometheus metrics are served."""

    @property
    def second(self) -> SecondInput | None:
        """The second input of a join; None with one input."""
        return self.versions or self.right
