"""`join_asof`: each row of a stream with the newest version of its key at its time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from idlestate.backends.shards.as_of import HOW, AsOf, as_of
from idlestate.pipeline.arguments import Arguments, ColumnArgument
from idlestate.pipeline.operator_checks import Columns, Marking, check_columns, checked_operator
from idlestate.pipeline.operator_dataframe import changelog
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.spark.argument_type import check_dataframes
from idlestate.pipeline.state_place import state_place
from idlestate.pipeline.two_inputs import (
    OneOfTwo,
    check_two_inputs,
    check_types,
    operators_of_inputs,
    without_malformed,
)
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy
from idlestate.sidecar.protocol.connection import Address

PROBES, VERSIONS = "probes", "versions"
"""The names of the inputs."""


def join_asof(
    probes: DataFrame,
    versions: DataFrame,
    *,
    on: Sequence[ColumnArgument] | ColumnArgument,
    uid: str,
    event_time: ColumnArgument,
    version_event_time: ColumnArgument | None = None,
    how: str = "inner",
    columns: Sequence[ColumnArgument] | ColumnArgument | None = None,
    delay: Duration = "0s",
    version_delay: Duration | None = None,
    idle_after: Duration | Mapping[str, Duration] | None = None,
    policy: str | Policy | None = None,
    config: str | Path | None = None,
    order: Sequence[ColumnArgument] | ColumnArgument = (),
    max_ahead: Duration = "1h",
    min_event_time: str = "1970-01-02",
    malformed: ColumnArgument | None = None,
    null_key: str = "keep",
    rejects: bool = False,
    shards: int | None = None,
    backend: str = "spark",
    sidecar: str | Address | None = None,
    runs: str | None = None,
) -> DataFrame:
    """Join each probe to the newest version of its key whose event time is not after the probe's.

    Both inputs are streams, or both are batch DataFrames. A version is a write of its key, and a
    probe is a read. A probe finds a version only if, by the policy, the life of its key is open at
    the probe's time. Rows of both inputs wait until the watermark reaches them, and then count in
    order of event time, versions before probes of the same time. The watermark is the lower one of
    the two inputs.

    Args:
        probes: the rows to join, with columns of simple types and without a watermark.
        versions: the rows to which probes are joined, under the same conditions.
        on: one or more key columns, which both inputs have, of the same types. As in SQL, a null
            matches nothing.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column of the probes, a timestamp.
        version_event_time: the event-time column of the versions; default: the same name.
        how: `inner`, or `left` to emit probes without a version too.
        columns: columns of the versions to emit; default: all except the keys. Probe columns must
            have different names.
        delay: how late probes may arrive: text such as `10m` or `1h30m`, or a timedelta.
        version_delay: how late versions may arrive; default: `delay`.
        idle_after: how long an input without rows holds the watermark back: one duration for both
            inputs, or durations by name, as in `{"versions": "15m"}`. Rows that it sends later,
            behind the watermark, are late. Default: forever.
        policy: the name of a policy in `config`, or a `Policy`: how long a key's newest version is
            kept. None uses the policy that the selectors of `config` assign to this uid; without
            one, state grows without bound.
        config: the policy file.
        order: columns among `columns` that order versions of the same key and event time. The last
            one counts; if several are equal, the largest by all columns.
        malformed: a column that is not null in rows that the source could not parse. One or both
            inputs may have it. It is not emitted.
        null_key: `keep` treats rows with a null key as an inner or left join in SQL does; `reject`
            rejects them.
        rejects: whether to emit late and rejected rows of both inputs, with nulls in the columns
            of the join, and the columns `reason`, `input` and `rejected`.
        max_ahead, min_event_time, shards: as for `retain`, for both inputs.
        backend, sidecar, runs: as for `retain`.

    Returns:
        Key columns, the other columns of the probes, `columns` of the versions, and `batch_id`;
        with `rejects` three more. There is one row per probe, or with `inner` one per probe that
        finds a version, in the batch that processes it.

    Raises:
        RefusedError: inputs, session or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """
    check_dataframes(probes=probes, versions=versions)
    spark = probes.sparkSession
    ignores_case = spark.conf.get("spark.sql.caseSensitive") != "true"
    given = Arguments(uid, probes.columns, ignores_case=ignores_case)
    check_two_inputs(given, uid, probes, versions)
    operators = as_of_operator(
        probes.schema,
        versions.schema,
        ignores_case=ignores_case,
        on=on,
        uid=uid,
        event_time=event_time,
        version_event_time=version_event_time,
        how=how,
        columns=columns,
        delay=delay,
        version_delay=version_delay,
        idle_after=idle_after,
        policy=policy,
        config=config,
        order=order,
        max_ahead=max_ahead,
        min_event_time=min_event_time,
        malformed=malformed,
        null_key=null_key,
        rejects=rejects,
        shards=shards,
        place=state_place(spark, uid, backend, sidecar, runs),
    )
    return changelog([probes, versions], operators)


def as_of_operator(
    probes: StructType,
    versions: StructType,
    *,
    ignores_case: bool,
    on: Sequence[ColumnArgument] | ColumnArgument,
    uid: str,
    event_time: ColumnArgument,
    version_event_time: ColumnArgument | None,
    how: str,
    columns: Sequence[ColumnArgument] | ColumnArgument | None,
    delay: Duration,
    version_delay: Duration | None,
    idle_after: Duration | Mapping[str, Duration] | None,
    order: Sequence[ColumnArgument] | ColumnArgument,
    malformed: ColumnArgument | None = None,
    **arguments: Any,
) -> list[tuple[OperatorSpec, Marking]]:
    """The operator for each input, which marks and packs its rows; the first represents both.

    Arguments as in `join_asof` and `checked_operator`, with the schemas of the inputs.

    Raises:
        RefusedError: schemas or arguments do not fit; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """
    given = Arguments(uid, probes.names, ignores_case=ignores_case)
    (probes, bad), (versions, bad_version) = without_malformed(given, malformed, probes, versions)
    given_versions = given.among(versions.names)
    if how not in HOW:
        raise given.refused(f"how {how!r} is not valid; pass 'inner' or 'left'")
    keys = given.columns("on", on)
    time = given_versions.column("version_event_time", version_event_time or event_time)
    check_columns(versions, uid, event_time=time)
    every = tuple(name for name in versions.names if name not in keys)
    chosen = every if columns is None else given_versions.columns("columns", columns)
    schema = _joined_schema(given, probes, versions, keys, chosen)
    own = tuple(name for name in probes.names if name not in keys)

    def kind_of(found: Columns) -> AsOf:
        check_types(found, (*own, *chosen))
        return as_of(how, own, chosen, found.types, found.order)

    spec, marking = checked_operator(
        given.among(schema.names),
        schema,
        kind_of,
        key=keys,
        uid=uid,
        event_time=event_time,
        delay=delay,
        order=order,
        read_when=None,
        malformed=None,
        in_order=True,
        **arguments,
    )
    if not set(given.columns("order", order)) <= set(chosen):
        raise given.refused(f"order: use columns of the versions: {', '.join(chosen)}")
    behind = delay if version_delay is None else version_delay
    inputs = [
        OneOfTwo(
            *(PROBES, (*keys, *own), delay, marking.event_time, bad),
            drops_null_keys=how == "inner",
            all_read=True,
        ),
        OneOfTwo(VERSIONS, (*keys, *chosen), behind, time, bad_version, drops_null_keys=True),
    ]
    return operators_of_inputs(given, spec, marking, inputs, idle_after)


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
                f"column {name} of the versions not found; available: {', '.join(versions.names)}",
                about=name,
            )
    for name in keys:
        if name in probes.names and probes[name].dataType != versions[name].dataType:
            raise given.refused(
                f"on: {name} is of type {probes[name].dataType.simpleString()} in the probes and "
                f"{versions[name].dataType.simpleString()} in the versions; cast one of them",
                about=name,
            )
    twice = next((name for name in chosen if name in probes.names), None)
    if twice is not None:
        raise given.refused(
            f"both inputs have a column {twice}; leave it out of columns, or rename it before: "
            f"versions.withColumnRenamed({twice!r}, 'version_{twice}')",
            about=twice,
        )
    return StructType([*probes.fields, *(versions[name] for name in chosen)])
