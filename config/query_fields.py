"""Pipelines with a query: the fields that it stands for are filled in before they are checked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from idlestate.config.problems import Finding
from idlestate.config.sql.query_error import QueryError
from idlestate.config.sql.query_plan import QueryPlan
from idlestate.config.yaml_loader import REFUSED
from idlestate.retention.windows import Windows

SOURCE = "source"
"""What a query calls the pipeline's source."""

_SAID = ("key", "aggregates", "kind", "keep", "order", "window", "rows", "range")


@dataclass(frozen=True, slots=True)
class QueryFields:
    """A document in which queries are fields.

    Attributes:
        document: the document, with `key`, `aggregates` and so on where a query says them.
        plans: the plans of the queries, by pipeline.
        findings: what is wrong with queries.
    """

    document: object
    plans: Mapping[str, QueryPlan]
    findings: tuple[Finding, ...]


def read_queries(document: object) -> QueryFields:
    """Fill in what the queries of a document stand for; nothing is raised."""
    pipelines = document.get("pipelines") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(pipelines, dict):
        return QueryFields(document, {}, ())
    policies = document.get("policies")
    filled = dict(pipelines)
    plans: dict[str, QueryPlan] = {}
    findings: list[Finding] = []
    for uid, fields in pipelines.items():
        if not isinstance(fields, dict) or "query" not in fields:
            continue
        path = ("pipelines", uid)
        filled[uid] = {**dict.fromkeys(("key", "aggregates"), REFUSED), **fields}
        if not isinstance(fields["query"], str) or not fields["query"].strip():
            continue  # its field tells
        for name in _SAID:
            if name in fields:
                what = f"{name} is part of the query"
                findings.append(Finding((*path, name), what, "remove it, or remove query"))
        try:
            plan = _plan(fields["query"], policies if isinstance(policies, dict) else {})
        except QueryError as error:
            what = f"{error.place}: {error.what}"
            findings.append(Finding((*path, "query"), what, error.fix, error.place.line))
            continue
        plans[uid] = plan
        findings += _other_time(path, fields, plan)
        filled[uid] = {**fields, **_fields(plan)}
    return QueryFields({**document, "pipelines": filled}, plans, tuple(findings))


def _plan(query: str, policies: Mapping[str, object]) -> QueryPlan:
    # Only files with queries pay for the parser, which takes a while to import.
    from idlestate.config.sql.planning import plan_query  # noqa: PLC0415

    plan = plan_query(query)
    if plan.operator not in {"retain", "deduplicate", "over"}:
        fix = f"use kind: {plan.operator}, or idlestate.sql in a job of your own"
        what = "joins are not supported in the query of a pipeline"
        raise QueryError((plan.second or plan.rows).place, what, fix)
    if plan.rows.table.lower() != f"`{SOURCE}`":
        what = "the query of a pipeline reads its source"
        raise QueryError(plan.rows.place, what, f"write FROM {SOURCE}")
    hint = plan.retention
    if hint is not None and hint.policy is not None and hint.policy not in policies:
        fix = f"add it under policies, or use one of {', '.join(policies) or 'none'}"
        raise QueryError(hint.place, f"unknown policy {hint.policy}", fix)
    return plan


def _fields(plan: QueryPlan) -> dict[str, object]:
    """The arguments of the operator as fields of a pipeline."""
    names = {"columns": "aggregates"}
    fields = {
        names.get(name, name): str(value) if isinstance(value, Windows) else value
        for name, value in plan.arguments.items()
    }
    if plan.retention is not None and plan.retention.policy is not None:
        fields["policy"] = plan.retention.policy
    return {"kind": plan.operator, **fields}


def _other_time(
    path: tuple[str, str], fields: Mapping[str, object], plan: QueryPlan
) -> Iterator[Finding]:
    time, own = fields.get("event_time"), plan.arguments.get("event_time")
    if isinstance(time, str) and own is not None and time.lower() != str(own).lower():
        what = f"the query goes by the time {own}"
        yield Finding((*path, "event_time"), what, f"set {own}, or change the query")
