"""The plan of a query as DataFrames: what it reads, its operator, and what it selects."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate.config.policy_argument import choose_policy
from idlestate.config.sql.query_error import QueryPlace
from idlestate.config.sql.query_plan import (
    Computed,
    Named,
    Only,
    QueryPlan,
    QueryRows,
    Retention,
    Selected,
    Step,
    Where,
    right_event_time_name,
)
from idlestate.config.sql.quoting import quoted
from idlestate.errors import RefusedError
from idlestate.pipeline.deduplicate import deduplicate
from idlestate.pipeline.join import join
from idlestate.pipeline.join_asof import join_asof
from idlestate.pipeline.over import over
from idlestate.pipeline.retain import retain
from idlestate.pipeline.spark.task_errors import spark_says
from idlestate.retention.added_columns import ADDED_COLUMNS, INPUT, REJECTED
from idlestate.retention.policy import Policy, TimeDomain

_OPERATORS: dict[str, Callable[..., DataFrame]] = {
    "retain": retain,
    "deduplicate": deduplicate,
    "join": join,
    "join_asof": join_asof,
    "over": over,
}
_OF_VERSIONS = ("version_event_time", "version_delay")
_OF_RIGHT = ("right_event_time", "right_delay", "right_policy")
_OF_TWO_INPUTS = (*_OF_VERSIONS, *_OF_RIGHT, "idle_after")
_OF_GROUPS = ("read_when", "renamed", "fire_after")
_NOT_TAKEN = {
    "retain": _OF_TWO_INPUTS,
    "deduplicate": (*_OF_GROUPS, *_OF_TWO_INPUTS),
    "join": (*_OF_GROUPS, "in_order", *_OF_VERSIONS),
    "join_asof": (*_OF_GROUPS, "in_order", *_OF_RIGHT),
    "over": (*_OF_GROUPS, "rejects", "in_order", *_OF_TWO_INPUTS),
}
_PLACE_OF_SPARK = re.compile(r"; line \d+ pos \d+;?$")
"""A position in the expression, which Spark parses as a separate text."""
_DEFAULTS = {"rejects": False, "backend": "spark"}
_TIMES = ("event_time", "version_event_time", "right_event_time")


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
        uid, policy, config: as for `retain`; a hint in the query takes precedence over the policy.
        arguments: arguments of the operator that the query does not define.

    Raises:
        RefusedError: the query does not fit its input, or `retain` raises it.
        ConfigError: as `retain`.
    """
    given = _arguments(plan, uid, arguments)
    inputs = [_read(plan, table(plan.rows), uid, given, given.get("event_time"))]
    second = plan.second
    if second is not None:
        if plan.operator == "join":
            of_right = _hinted(
                plan.second_retention, given.pop("right_policy", policy), config, uid
            )
            given["right_policy"] = choose_policy(of_right, config, uid)
            second, given["right_event_time"] = _with_time(second, given, uid)
            named = {given["right_event_time"].lower(): second.place, **plan.named}
            plan = replace(plan, named=named)
        time = given.get(
            "right_event_time", given.get("version_event_time", given.get("event_time"))
        )
        of_second = replace(plan, rows=second)
        inputs.append(_read(of_second, table(second), uid, given, time))
    chosen = _policy(plan, policy, config, uid)
    with refused_in_place(plan, uid):
        changes = _OPERATORS[plan.operator](*inputs, uid=uid, policy=chosen, config=config, **given)
    return _selected(plan, changes, uid)


@contextmanager
def reads_of_spark(uid: str, place: QueryPlace) -> Iterator[None]:
    """Raise Spark's errors about names and expressions as errors of the query.

    Raises:
        RefusedError: Spark refused the code in this context.
    """
    try:
        yield
    except AnalysisException as error:
        told = _PLACE_OF_SPARK.sub("", spark_says(str(error)))
        raise RefusedError(f"operator {uid!r}: query, {place}: {told}") from error


@contextmanager
def refused_in_place(plan: QueryPlan, uid: str) -> Iterator[None]:
    """Add the position in the query's text to an operator's refusal.

    Raises:
        RefusedError: the refusal, with the position if the query contains its cause.
    """
    try:
        yield
    except RefusedError as error:
        if error.about is None:
            raise
        told = str(error).removeprefix(f"operator {uid!r}: ")
        text = f"operator {uid!r}: query, {plan.place_of(error.about)}: {told}"
        raise RefusedError(text, about=error.about) from error


def _with_time(rows: QueryRows, given: Mapping[str, Any], uid: str) -> tuple[QueryRows, str]:
    """The right rows of a join, with their event time under a name that left rows do not have."""
    time = given.get("right_event_time", given.get("event_time"))
    if time is None:
        raise RefusedError(
            f"operator {uid!r}: query, {rows.place}: the query names no event time; pass "
            "event_time, and right_event_time if the other input has another name for it"
        )
    name = right_event_time_name(str(time))
    *steps, only = rows.steps
    renamed = Computed({name: quoted(str(time))})
    return replace(rows, steps=(*steps, renamed, only)), name


def _arguments(plan: QueryPlan, uid: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of the operator, from the query and from the caller."""
    said = {name: value for name, value in given.items() if value is not None}
    found: dict[str, Any] = {**said, **plan.arguments}
    for name in _TIMES:
        time, own = given.get(name), plan.arguments.get(name)
        if time is not None and own is not None and str(time).lower() != str(own).lower():
            raise RefusedError(
                f"operator {uid!r}: query, {plan.rows.place}: the query uses {own} as event time, "
                f"but {name} is {time}; use one of them"
            )
    for name in _NOT_TAKEN[plan.operator]:
        if found.pop(name, None) not in (None, _DEFAULTS.get(name)):
            raise RefusedError(
                f"operator {uid!r}: {name} does not apply to this query, which is a call of "
                f"{plan.operator}; remove it"
            )
    return found


def _read(
    plan: QueryPlan, events: DataFrame, uid: str, given: Mapping[str, Any], time: str | None
) -> DataFrame:
    malformed = given.get("malformed")
    if str(malformed).lower() not in map(str.lower, events.columns):
        malformed = None  # one of two inputs may lack it
    needed = [time, given.get("read_when"), malformed]
    for step in plan.rows.steps:
        place = step.place if isinstance(step, Where) else None
        with reads_of_spark(uid, place or plan.rows.place):
            events = _after(step, events, plan, uid, needed)
    return events


def _after(
    step: Step, events: DataFrame, plan: QueryPlan, uid: str, needed: list[str | None]
) -> DataFrame:
    malformed = needed[-1]
    match step:
        case Named(name):
            return events.alias(name)
        case Where(condition):
            # A malformed row has no values to compare; it is counted as rejected later.
            is_kept = F.expr(condition)
            return events.where(
                is_kept if malformed is None else is_kept | F.col(malformed).isNotNull()
            )
        case Selected(columns, places):
            chosen = [F.expr(text) for text in columns]
            found = _select(events, chosen, places, uid)
            if malformed not in (None, *found.columns):
                return events.select(*chosen, F.col(str(malformed)))
            return found
        case Only(columns, places):
            names = [*_folded_once(dict.fromkeys((*columns, *filter(None, needed))))]
            at = [places.get(name.lower(), plan.rows.place) for name in names]
            return _select(events, [quoted(name) for name in names], at, uid)
        case Computed(columns, places):
            _check_names(plan, events, uid, [*columns], needed)
            for name, text in columns.items():
                with reads_of_spark(uid, places.get(name.lower(), plan.rows.place)):
                    events.select(F.expr(text))
            return events.withColumns({name: F.expr(text) for name, text in columns.items()})


def _select(
    rows: DataFrame, columns: Sequence[str | Column], places: Sequence[QueryPlace], uid: str
) -> DataFrame:
    """Select columns by names or expressions. If Spark refuses one, the error has its position."""
    try:
        return rows.select(*columns)
    except AnalysisException:
        for column, place in zip(columns, places, strict=False):
            with reads_of_spark(uid, place):
                rows.select(column)
        raise


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
    plan: QueryPlan, policy: str | Policy | None, config: str | Path | None, uid: str
) -> str | Policy | None:
    """The policy in force: the one in a hint, otherwise the caller's."""
    chosen = _hinted(plan.retention, policy, config, uid)
    is_ordered = plan.operator == "deduplicate" and "event_time" in plan.arguments
    if is_ordered and choose_policy(chosen, config, uid).time is TimeDomain.PROCESSING:
        raise RefusedError(
            f"operator {uid!r}: query, {plan.rows.place}: the rows are ordered by "
            f"{plan.arguments['event_time']}, but the policy uses processing time; use a policy "
            "of event time, or SELECT DISTINCT"
        )
    return chosen


def _hinted(
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
    try:
        return choose_policy(hint.policy, config, uid)
    except RefusedError as error:
        raise RefusedError(f"operator {uid!r}: query, {hint.place}: {error}") from error


def _selected(plan: QueryPlan, changes: DataFrame, uid: str) -> DataFrame:
    if plan.name is not None:
        changes = changes.alias(plan.name)
    if plan.having is not None:
        is_kept = F.expr(plan.having)
        if REJECTED in changes.columns:
            is_kept |= F.col(REJECTED).isNotNull()
        with reads_of_spark(uid, plan.condition_place or plan.rows.place):
            changes = changes.where(is_kept)
    if plan.output is None:
        return changes
    names = (*ADDED_COLUMNS, INPUT) if REJECTED in changes.columns else ADDED_COLUMNS
    added = [name for name in changes.columns if name in names]
    own = [quoted(name) for name in changes.columns if name not in names]
    texts = [own if text == "*" else [text] for text in plan.output]
    one_for_all = [plan.rows.place] * len(texts)
    places = plan.places if len(plan.places) == len(texts) else one_for_all
    every = [place for text, place in zip(texts, places, strict=True) for _ in text]
    with reads_of_spark(uid, plan.rows.place):
        chosen = [*map(F.expr, chain.from_iterable(texts))]
        selected = _select(changes, chosen, every, uid)
        if len(selected.columns) != len(every):  # json_tuple yields several
            every = [plan.rows.place] * len(selected.columns)
        _check_selected(selected.columns, every, uid)
        return changes.select(*chosen, *added)


def _check_selected(names: Sequence[str], places: Sequence[QueryPlace], uid: str) -> None:
    """Refuse duplicate column names, which no sink accepts."""
    taken: set[str] = set()
    for name, place in zip(names, places, strict=True):
        if name.lower() in taken:
            raise RefusedError(
                f"operator {uid!r}: query, {place}: two columns are called {name}; list the "
                "columns, and add AS and a name"
            )
        taken.add(name.lower())


def _folded_once(names: Iterable[str]) -> Iterable[str]:
    """Names without those that differ from an earlier one only in case."""
    return {name.lower(): name for name in reversed([*names])}.values()
