"""The changelog of a pipeline of a configuration file."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from pyspark.sql import DataFrame

from idlestate.config.pipeline_settings import Pipeline
from idlestate.config.sql.query_plan import QueryPlan, QueryRows
from idlestate.functions.function_class import load_co_function, load_function
from idlestate.pipeline.co_process import co_process
from idlestate.pipeline.deduplicate import deduplicate
from idlestate.pipeline.input_files import Events
from idlestate.pipeline.join import join
from idlestate.pipeline.join_asof import PROBES, VERSIONS, join_asof
from idlestate.pipeline.over import over
from idlestate.pipeline.planned_query import planned_query
from idlestate.pipeline.process import process
from idlestate.pipeline.retain import retain
from idlestate.pipeline.two_inputs import LEFT, RIGHT
from idlestate.retention.policy import Policy
from idlestate.sidecar.protocol.connection import Address


class _Arguments(TypedDict):
    """Arguments of every operator."""

    uid: str
    event_time: Any
    delay: str
    policy: Policy | None
    config: None
    max_ahead: str
    min_event_time: str
    null_key: str
    shards: int | None
    backend: str
    sidecar: Address | None
    runs: str | None


class _Ordered(_Arguments):
    """Arguments of the operators that order rows."""

    order: Sequence[str]


class _OfOneInput(_Ordered):
    """Arguments of the operators that have one input."""

    key: list[str]
    malformed: str | None


def pipeline_changelog(
    events: Events,
    second: Events | None,
    uid: str,
    pipeline: Pipeline,
    query: QueryPlan | None,
    policy: Policy,
    right_policy: Policy | None,
    sidecar: Address | None,
    *,
    rejects: bool,
) -> DataFrame:
    """The operator of a pipeline on its input.

    Args:
        events: the input.
        second: the second input of a join or of `co_process`; else None.
        uid: the pipeline's name.
        pipeline: its fields in the file.
        query: the plan of its query; None without one.
        policy: its policy; with a window, that of the window.
        right_policy: for a join, the policy of right rows; None: as `policy`.
        sidecar: the address of its sidecar; None if the driver starts one, or none is used.
        rejects: whether late and rejected rows are part of the changelog.

    Raises:
        RefusedError: the pipeline does not fit its input.
    """
    every: _Arguments = {
        "uid": uid,
        "event_time": pipeline.event_time,
        "delay": f"{pipeline.delay_ms}ms",
        "policy": None if pipeline.window else policy,
        "config": None,
        "max_ahead": f"{pipeline.max_ahead_ms}ms",
        "min_event_time": _instant(pipeline.min_event_time_ms),
        "null_key": pipeline.null_key,
        "shards": pipeline.shards,
        "backend": pipeline.backend,
        "sidecar": sidecar,
        "runs": pipeline.runs,
    }
    malformed = events.malformed if second is None else events.malformed or second.malformed
    if query is not None:
        return _of_query(
            query, events, second, pipeline, right_policy, every, malformed, rejects=rejects
        )
    if second is not None and pipeline.right is not None and pipeline.kind == "join":
        return join(
            events.frame,
            second.frame,
            malformed=malformed,
            on=list(pipeline.key),
            how=pipeline.how,
            between=_interval(pipeline.between),
            right_event_time=pipeline.right.event_time,
            right_delay=_span(pipeline.right.delay_ms),
            right_policy=right_policy,
            idle_after=_idle_after(pipeline, LEFT, RIGHT),
            rejects=rejects,
            **every,
        )
    common: _Ordered = {**every, "order": pipeline.order}
    if second is not None and pipeline.right is not None:
        return co_process(
            events.frame,
            second.frame,
            malformed=malformed,
            key=list(pipeline.key),
            function=load_co_function(uid, str(pipeline.function)),
            output=str(pipeline.output),
            columns=pipeline.columns or None,
            right_columns=pipeline.right.columns or None,
            right_event_time=pipeline.right.event_time,
            right_delay=_span(pipeline.right.delay_ms),
            idle_after=_idle_after(pipeline, LEFT, RIGHT),
            on_error=pipeline.on_error,
            renamed=pipeline.renamed,
            in_order=pipeline.in_order,
            rejects=rejects,
            **common,
        )
    if second is not None and pipeline.versions is not None:
        return join_asof(
            events.frame,
            second.frame,
            malformed=malformed,
            on=list(pipeline.key),
            how=pipeline.how,
            version_event_time=pipeline.versions.event_time,
            version_delay=_span(pipeline.versions.delay_ms),
            columns=pipeline.versions.columns or None,
            idle_after=_idle_after(pipeline, PROBES, VERSIONS),
            rejects=rejects,
            **common,
        )
    shared: _OfOneInput = {**common, "key": list(pipeline.key), "malformed": malformed}
    match pipeline.kind:
        case "over":
            return over(
                events.frame,
                columns=pipeline.aggregates,
                rows=pipeline.rows,
                range=_span(pipeline.range_ms),
                **shared,
            )
        case "process":
            return process(
                events.frame,
                function=load_function(uid, str(pipeline.function)),
                output=str(pipeline.output),
                columns=pipeline.columns or None,
                on_error=pipeline.on_error,
                read_when=pipeline.read_when,
                renamed=pipeline.renamed,
                in_order=pipeline.in_order,
                rejects=rejects,
                **shared,
            )
        case "deduplicate":
            return deduplicate(
                events.frame,
                keep=pipeline.keep,
                in_order=pipeline.in_order,
                rejects=rejects,
                **shared,
            )
        case _:
            return retain(
                events.frame,
                aggregates=pipeline.aggregates,
                read_when=pipeline.read_when,
                renamed=pipeline.renamed,
                window=pipeline.window,
                fire_after=_span(pipeline.fire_after_ms),
                in_order=pipeline.in_order,
                rejects=rejects,
                **shared,
            )


def _of_query(
    query: QueryPlan,
    events: Events,
    second: Events | None,
    pipeline: Pipeline,
    right_policy: Policy | None,
    every: _Arguments,
    malformed: str | None,
    *,
    rejects: bool,
) -> DataFrame:
    """The operator of a pipeline's query."""
    of_join: dict[str, object] = {}
    if second is not None and pipeline.second is not None:
        is_join = pipeline.right is not None
        names = (LEFT, RIGHT) if is_join else (PROBES, VERSIONS)
        of = "right" if is_join else "version"
        of_join = {
            f"{of}_event_time": pipeline.second.event_time,
            f"{of}_delay": _span(pipeline.second.delay_ms),
            "idle_after": _idle_after(pipeline, *names) or None,
        }

    def table(rows: QueryRows) -> DataFrame:
        of = events if second is None or rows is query.rows else second
        return of.frame.alias(rows.name)

    return planned_query(
        # The policies already include the hints.
        replace(query, retention=None, second_retention=None),
        table,
        malformed=malformed,
        read_when=pipeline.read_when,
        renamed=pipeline.renamed or None,
        fire_after=_span(pipeline.fire_after_ms),
        in_order=pipeline.in_order,
        rejects=rejects,
        right_policy=right_policy,
        **of_join,
        **every,
    )


def _interval(between: tuple[int, int] | None) -> tuple[timedelta, timedelta] | None:
    if between is None:
        return None
    low_ms, high_ms = between
    return timedelta(milliseconds=low_ms), timedelta(milliseconds=high_ms)


def _idle_after(pipeline: Pipeline, first: str, second: str) -> dict[str, str]:
    """`idle_after` by the names of both inputs."""
    of_second = None if pipeline.second is None else pipeline.second.idle_after_ms
    spans_ms = {first: pipeline.idle_after_ms, second: of_second}
    return {name: f"{span_ms}ms" for name, span_ms in spans_ms.items() if span_ms is not None}


def _span(span_ms: int | None) -> str | None:
    return None if span_ms is None else f"{span_ms}ms"


def _instant(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
