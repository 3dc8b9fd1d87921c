"""Pipelines with a query: the fields that it replaces are filled in before they are checked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from idlestate.config.problems import FieldPath, Finding
from idlestate.config.query_sources import FilledIn, check_tables, with_sources, without_plan
from idlestate.config.sql.query_error import QueryError
from idlestate.config.sql.query_plan import QueryPlan
from idlestate.config.yaml_loader import REFUSED
from idlestate.retention.windows import Windows

_SAID = (
    *("key", "aggregates", "kind", "keep", "order", "window", "rows", "range", "between", "how"),
    *("right", "versions"),
)
_TIMES = ("event_time", "right_event_time", "version_event_time")


@dataclass(frozen=True, slots=True)
class QueryFields:
    """A document in which queries are fields.

    Attributes:
        document: the document, with `key`, `aggregates` and so on filled in from queries.
        plans: the plans of the queries, by pipeline.
        findings: problems with queries.
        origins: where fields that were filled in are written.
    """

    document: object
    plans: Mapping[str, QueryPlan]
    findings: tuple[Finding, ...]
    origins: Mapping[FieldPath, FieldPath]


def read_queries(document: object) -> QueryFields:
    """Fill in the fields that the queries of a document define, without raising errors."""
    pipelines = document.get("pipelines") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(pipelines, dict):
        return QueryFields(document, {}, (), {})
    policies = document.get("policies")
    filled = dict(pipelines)
    plans: dict[str, QueryPlan] = {}
    findings: list[Finding] = []
    origins: dict[FieldPath, FieldPath] = {}
    for uid, fields in pipelines.items():
        if not isinstance(fields, dict) or not {"query", "sources"} & {*fields}:
            continue
        path = ("pipelines", uid)
        plan = None
        try:
            plan = _plan(fields, policies if isinstance(policies, dict) else {})
        except QueryError as error:
            what = f"{error.place}: {error.what}"
            findings.append(Finding((*path, "query"), what, error.fix, error.place.line))
        found = _filled(path, fields, plan)
        findings += found.findings
        origins |= found.origins
        filled[uid] = found.fields
        if plan is not None:
            plans[uid] = plan
    return QueryFields({**document, "pipelines": filled}, plans, tuple(findings), origins)


def _filled(path: FieldPath, fields: Mapping[str, object], plan: QueryPlan | None) -> FilledIn:
    """The fields that the query and the sources of a pipeline define."""
    findings = [*_said_twice(path, fields)] if "query" in fields else []
    inputs = FilledIn(dict(fields), {}, ())
    if "sources" in fields:
        inputs = with_sources(path, fields, plan) if plan else without_plan(path, fields)
    filled = inputs.fields
    if plan is None:
        filled = {**dict.fromkeys(("key", "aggregates"), REFUSED), **filled}
    else:
        findings += _other_time(path, fields, plan)
        filled = {**filled, **_fields(plan)}
        if plan.second_retention is not None and plan.second_retention.policy is not None:
            right = filled["right"]
            assert isinstance(right, dict)
            filled["right"] = {**right, "policy": plan.second_retention.policy}
    return FilledIn(filled, inputs.origins, (*findings, *inputs.findings))


def _said_twice(path: FieldPath, fields: Mapping[str, object]) -> Iterator[Finding]:
    for name in _SAID:
        if name in fields:
            fix = "remove it, or remove query"
            yield Finding((*path, name), f"{name} is part of the query", fix)


def _plan(fields: Mapping[str, object], policies: Mapping[str, object]) -> QueryPlan | None:
    """The plan of a pipeline's query; None without a query that could be read."""
    query = fields.get("query")
    if not isinstance(query, str) or not query.strip():
        return None  # reported for its field
    # Only files with queries pay for the parser, which takes a while to import.
    from idlestate.config.sql.planning import plan_query  # noqa: PLC0415

    plan = plan_query(query)
    check_tables(plan, fields)
    for hint in (plan.retention, plan.second_retention):
        if hint is not None and hint.policy is not None and hint.policy not in policies:
            fix = f"add it under policies, or use one of {', '.join(policies) or 'none'}"
            raise QueryError(hint.place, f"unknown policy {hint.policy}", fix)
    return plan


def _fields(plan: QueryPlan) -> dict[str, object]:
    """The arguments of the operator, as fields of a pipeline."""
    is_join = plan.second is not None
    names = {"on": "key"} if is_join else {"columns": "aggregates"}
    fields = {
        names.get(name, name): _value(value)
        for name, value in plan.arguments.items()
        if not is_join or name in ("on", "how", "between")
    }
    if plan.retention is not None and plan.retention.policy is not None:
        fields["policy"] = plan.retention.policy
    return {"kind": plan.operator, **fields}


def _value(value: object) -> object:
    match value:
        case Windows():
            return str(value)
        case tuple():
            return list(value)
        case _:
            return value


def _other_time(
    path: FieldPath, fields: Mapping[str, object], plan: QueryPlan
) -> Iterator[Finding]:
    """Refuse an event time of the pipeline if the query names other ones for all its inputs."""
    time = fields.get("event_time")
    said = [str(plan.arguments[name]) for name in _TIMES if name in plan.arguments]
    is_whole = len(said) == (1 if plan.second is None else 2)
    if isinstance(time, str) and is_whole and time.lower() not in map(str.lower, said):
        what = f"the query uses {' and '.join(said)} as event time"
        fix = f"set {said[0]}, or change the query" if len(said) == 1 else "remove it"
        yield Finding((*path, "event_time"), what, fix)
