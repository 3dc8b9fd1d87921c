"""The plan of a query as DataFrames: what it reads, its operator, and what it selects."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate.config.added_columns import ADDED_COLUMNS
from idlestate.config.sql.query_error import QueryPlace
from idlestate.config.sql.query_plan import (
    Computed,
    Named,
    QueryPlan,
    QueryRows,
    Retention,
    Selected,
    Where,
)
from idlestate.errors import RefusedError
from idlestate.pipeline.deduplicate import deduplicate
from idlestate.pipeline.policy_argument import choose_policy
from idlestate.pipeline.retain import retain
from idlestate.pipeline.task_errors import spark_says
from idlestate.retention.policy import Policy

_OPERATORS: dict[str, Callable[..., DataFrame]] = {"retain": retain, "deduplicate": deduplicate}
_OF_ROWS = ("event_time", "read_when", "malformed")


def planned_query(
    plan: QueryPlan,
    table: Callable[[QueryRows], DataFrame],
    *,
    uid: str,
    policy: str | Policy | None,
    config: str | Path | None,
    **arguments: Any,
) -> DataFrame:
    """The changelog of a query.

    Args:
        plan: the query.
        table: the rows of the table that the query names.
        uid, policy, config: as for `retain`; a hint of the query wins over the policy.
        arguments: those of the operator that the query does not say.

    Raises:
        RefusedError: the query does not fit its input, or as `retain`.
        ConfigError: as `retain`.
    """
    events = _read(plan, table(plan.rows), uid, [arguments.get(name) for name in _OF_ROWS])
    changes = _OPERATORS[plan.operator](
        events,
        uid=uid,
        policy=_policy(plan.retention, policy, config, uid),
        config=config,
        **plan.arguments,
        **arguments,
    )
    with reads_of_spark(uid, plan.rows.place):
        return _selected(plan, changes)


@contextmanager
def reads_of_spark(uid: str, place: QueryPlace) -> Iterator[None]:
    """Tell errors of Spark about names and expressions as errors of the query.

    Raises:
        RefusedError: Spark refused what runs here.
    """
    try:
        yield
    except AnalysisException as error:
        raise RefusedError(f"operator {uid!r}: query, {place}: {spark_says(str(error))}") from error


def _read(plan: QueryPlan, events: DataFrame, uid: str, needed: list[str | None]) -> DataFrame:
    malformed = needed[-1]
    for step in plan.rows.steps:
        with reads_of_spark(uid, plan.rows.place):
            match step:
                case Named(name):
                    events = events.alias(name)
                case Where(condition):
                    # A malformed row has no values to compare; it is counted as rejected later.
                    is_kept = F.expr(condition)
                    events = events.where(
                        is_kept if malformed is None else is_kept | F.col(malformed).isNotNull()
                    )
                case Selected(columns):
                    chosen = [F.expr(text) for text in columns]
                    if malformed not in (None, *events.select(*chosen).columns):
                        chosen.append(F.col(str(malformed)))
                    events = events.select(*chosen)
                case Computed(columns):
                    _check_names(plan, events, uid, [*columns], needed)
                    events = events.withColumns(
                        {name: F.expr(text) for name, text in columns.items()}
                    )
    return events


def _check_names(
    plan: QueryPlan, events: DataFrame, uid: str, computed: list[str], needed: list[str | None]
) -> None:
    columns = {name.lower() for name in events.columns}
    for name, place in plan.new_names.items():
        if name.lower() in columns:
            raise RefusedError(
                f"operator {uid!r}: query, {place}: {name} is a column of the input too; write "
                "the expression in GROUP BY, or use another name"
            )
    used = {name.lower() for name in needed if name is not None}
    for name in computed:
        if name.lower() in used & columns:
            raise RefusedError(
                f"operator {uid!r}: query, {plan.rows.place}: {name} is computed, but also the "
                "name of a column that another argument uses; give the expression another name"
            )


def _policy(
    hint: Retention | None, policy: str | Policy | None, config: str | Path | None, uid: str
) -> str | Policy | None:
    if hint is None:
        return policy
    if hint.ttl_ms is not None:
        base = choose_policy(policy, config, uid)
        return base.with_ttl_alone(hint.ttl_ms, "the hint STATE_TTL of the query")
    if config is None:
        raise RefusedError(
            f"operator {uid!r}: query, {hint.place}: policy {hint.policy} is not known; pass its "
            "file: config='...yaml'"
        )
    return hint.policy


def _selected(plan: QueryPlan, changes: DataFrame) -> DataFrame:
    if plan.name is not None:
        changes = changes.alias(plan.name)
    if plan.having is not None:
        is_kept = F.expr(plan.having) | (F.col("change") == "reject")
        changes = changes.where(is_kept)
    if plan.output is None:
        return changes
    added = [name for name in changes.columns if name in ADDED_COLUMNS]
    return changes.select(*map(F.expr, plan.output), *added)
