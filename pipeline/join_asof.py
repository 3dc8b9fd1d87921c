"""`join_asof`: each row of a stream with the newest version of its key at its time."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from idlestate.backends.shards.as_of import HOW, AsOf, as_of
from idlestate.pipeline.arguments import Arguments, ColumnArgument
from idlestate.pipeline.operator_checks import Columns, check_columns, checked_operator
from idlestate.pipeline.operator_dataframe import changelog
from idlestate.pipeline.row_checks import marked_rows
from idlestate.pipeline.state_place import state_place
from idlestate.pipeline.two_inputs import check_two_inputs, check_types
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy
from idlestate.sidecar.protocol.connection import Address


def join_asof(
    probes: DataFrame,
    versions: DataFrame,
    *,
    on: Sequence[ColumnArgument] | ColumnArgument,
    uid: str,
    event_time: ColumnArgument,
    version_time: ColumnArgument | None = None,
    how: str = "inner",
    columns: Sequence[ColumnArgument] | ColumnArgument | None = None,
    delay: Duration = "0s",
    version_delay: Duration | None = None,
    policy: str | Policy | None = None,
    config: str | Path | None = None,
    order: Sequence[ColumnArgument] | ColumnArgument = (),
    max_ahead: Duration = "1h",
    min_event_time: str = "1970-01-02",
    null_key: str = "keep",
    shards: int | None = None,
    backend: str = "spark",
    sidecar: str | Address | None = None,
    runs: str | None = None,
) -> DataFrame:
    """Join each probe to the newest version of its key whose event time is not after the probe's.

    Both inputs are streams, or both are batch DataFrames. A version is a write of its key and a
    probe is a read: a probe finds the newest version if the life of its key, by the policy, is open
    at the probe's time. Rows of both inputs wait until the watermark reaches them and take their
    turn in order of event time, versions before probes of the same time. The watermark is that of
    the input that is further behind.

    Args:
        probes: the rows to join, with columns of simple types and without a watermark.
        versions: what they are joined to, likewise.
        on: one or more key columns, which both inputs have, of the same types. Null is a key like
            any other, unless `null_key` rejects it.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column of the probes, a timestamp.
        version_time: that of the versions; default: the same name.
        how: `inner`, or `left` to emit probes without a version too.
        columns: columns of the versions that are emitted; default: all but the keys. No probe
            column has the same name.
        delay: how late probes may arrive: text such as `10m` or `1h30m`, or a timedelta.
        version_delay: the same of versions; default: `delay`.
        policy: the name of a policy in `config`, or a `Policy`: how long a key's newest version is
            kept. None uses the policy that the selectors of `config` assign to this uid; without
            one, state grows without bound.
        config: the policy file.
        order: columns of `columns` that order versions of the same key and event time; of equal
            ones, the largest by all columns counts.
        max_ahead, min_event_time, null_key, shards: as for `retain`, of both inputs.
        backend, sidecar, runs: as for `retain`.

    Returns:
        Key columns, the other columns of the probes, the version's, and `batch_id`: a row for each
        probe, or with `inner` for each one that finds a version, in the batch of its turn.

    Raises:
        RefusedError: inputs, session or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """
    spark = probes.sparkSession
    ignores_case = spark.conf.get("spark.sql.caseSensitive") != "true"
    given = Arguments(uid, probes.columns, ignores_case=ignores_case)
    given_versions = Arguments(uid, versions.columns, ignores_case=ignores_case)
    if how not in HOW:
        raise given.refused(f"how {how!r} is not valid; pass 'inner' or 'left'")
    check_two_inputs(given, uid, probes, versions)
    keys = given.columns("on", on)
    time = given_versions.column("version_time", version_time or event_time)
    check_columns(versions.schema, uid, event_time=time)
    every = tuple(name for name in versions.columns if name not in keys)
    chosen = every if columns is None else given_versions.columns("columns", columns)
    schema = _joined_schema(given, probes.schema, versions.schema, keys, chosen)
    own = tuple(name for name in probes.columns if name not in keys)

    def kind_of(found: Columns) -> AsOf:
        check_types(found, (*own, *chosen))
        return as_of(how, own, chosen, found.types, found.order)

    spec, marking = checked_operator(
        Arguments(uid, schema.names, ignores_case=ignores_case),
        schema,
        kind_of,
        key=keys,
        uid=uid,
        event_time=event_time,
        delay=delay,
        policy=policy,
        config=config,
        order=order,
        read_when=None,
        max_ahead=max_ahead,
        min_event_time=min_event_time,
        malformed=None,
        null_key=null_key,
        rejects=False,
        shards=shards,
        in_order=True,
        place=state_place(spark, uid, backend, sidecar, runs),
    )
    if not set(given.columns("order", order)) <= set(chosen):
        raise given.refused(f"order: use columns of the versions: {', '.join(chosen)}")
    types = dict(spec.inputs)
    of_probes = replace(
        spec, inputs=tuple((name, types[name]) for name in (*keys, *own)), all_read=True
    )
    # Its packer is not the operator's: the listener finds each operator by one.
    of_versions = replace(
        spec,
        inputs=tuple((name, types[name]) for name in (*keys, *chosen)),
        delay_ms=given.span_ms("version_delay", delay if version_delay is None else version_delay),
        token=f"{spec.token}_versions",
    )
    inputs = [
        (marked_rows(probes, of_probes, marking), of_probes),
        (marked_rows(versions, of_versions, replace(marking, event_time=time)), of_versions),
    ]
    return changelog(inputs, spec)


def _joined_schema(
    given: Arguments,
    probes: StructType,
    versions: StructType,
    keys: Sequence[str],
    chosen: Sequence[str],
) -> StructType:
    for name in (*keys, *chosen):
        if name not in versions.names:
            raise given.refused(
                f"column {name} of the versions not found; available: {', '.join(versions.names)}"
            )
    for name in keys:
        if name in probes.names and probes[name].dataType != versions[name].dataType:
            raise given.refused(
                f"on: {name} is of type {probes[name].dataType.simpleString()} in the probes and "
                f"{versions[name].dataType.simpleString()} in the versions; cast one of them"
            )
    twice = next((name for name in chosen if name in probes.names), None)
    if twice is not None:
        raise given.refused(
            f"both inputs have a column {twice}; leave it out of columns, or rename it before: "
            f"versions.withColumnRenamed({twice!r}, 'version_{twice}')"
        )
    return StructType([*probes.fields, *(versions[name] for name in chosen)])
