"""The named sources of a query as the inputs of its pipeline.

`sources` names the tables of a query. Once a file is read, the first one is the pipeline's
`source`, and the second one its `right` or `versions`, as in pipelines without a query. So only
this module knows both forms; `origins` lead from the filled in fields back to the file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from idlestate.config.pipeline_settings import SourceSection
from idlestate.config.problems import FieldPath, Finding
from idlestate.config.sql.query_error import QueryError
from idlestate.config.sql.query_plan import QueryPlan
from idlestate.config.yaml_loader import REFUSED

SOURCE = "source"
"""The name in a query for a pipeline's only, unnamed source."""

_SECOND = {"join": ("right", "right_event_time"), "join_asof": ("versions", "version_event_time")}
"""By operator: the pipeline's field for the second input, and the argument with its event time."""
_OF_INPUT = ("event_time", "delay", "idle_after", "policy")
_OF_FILES = {each.alias or name for name, each in SourceSection.model_fields.items()}


@dataclass(frozen=True, slots=True)
class FilledIn:
    """Fields of a pipeline with their places, and problems with its sources."""

    fields: dict[str, object]
    origins: Mapping[FieldPath, FieldPath]
    findings: tuple[Finding, ...]


def origin_of(path: FieldPath, origins: Mapping[FieldPath, FieldPath]) -> FieldPath:
    """Where the field at a path is written; the path itself if it was not filled in."""
    for length in range(len(path), 0, -1):
        if path[:length] in origins:
            return (*origins[path[:length]], *path[length:])
    return path


def check_tables(plan: QueryPlan, fields: Mapping[str, object]) -> None:
    """Refuse a query that reads something other than a source of its pipeline.

    Raises:
        QueryError: it does; the error has the place.
    """
    if "sources" not in fields:
        if plan.second is not None:
            what = "a join reads two inputs, and the pipeline has one source"
            raise QueryError(plan.second.place, what, "name both under sources instead of source")
        if plan.rows.name.lower() != SOURCE:
            what = "the query of a pipeline reads its source"
            raise QueryError(plan.rows.place, what, f"write FROM {SOURCE}, or name it in sources")
        return
    known = _names(fields)
    for rows in (plan.rows, plan.second):
        if rows is not None and rows.name.lower() not in known:
            fix = f"add it, or use {' or '.join(known.values())}" if known else "add it"
            raise QueryError(rows.place, "this is not one of the pipeline's sources", fix)


def without_plan(path: FieldPath, fields: Mapping[str, object]) -> FilledIn:
    """A pipeline with `sources` whose query cannot be read, or is missing."""
    unknown = dict.fromkeys(("source", "event_time", "delay"), REFUSED)
    findings = tuple(_check_names(path, fields))
    return FilledIn({**unknown, **fields}, {}, findings)


def with_sources(path: FieldPath, fields: Mapping[str, object], plan: QueryPlan) -> FilledIn:
    """Fill in the inputs of a pipeline with `sources`, which are the tables of its query."""
    findings = [*_check_names(path, fields)]
    filled, origins = dict(fields), dict[FieldPath, FieldPath]()
    known = _names(fields)
    tables = [rows.name.lower() for rows in (plan.rows, plan.second) if rows is not None]
    for name, written in known.items():
        if name not in tables:
            what = f"the query does not read {written}"
            findings.append(Finding((*path, "sources", written), what, "remove it"))
    places: dict[FieldPath, FieldPath]
    for at, table in enumerate(tables):
        one = _Input(path, fields, known[table], plan, at)
        findings += one.findings()
        own = one.fields()
        if at:
            second, _ = _SECOND[plan.operator]
            places = {(second, name): place for name, place in one.places.items()}
            places |= {(second,): one.path, (second, SOURCE): one.path}
            if plan.operator == "join_asof" and "policy" in own:
                filled["policy"] = own.pop("policy")
                places[("policy",)] = one.places["policy"]
            filled[second] = {SOURCE: one.files, **own}
        else:
            filled |= {SOURCE: one.files, **own}
            places = {(name,): place for name, place in one.places.items()}
            places[(SOURCE,)] = one.path
        origins |= {(*path, *steps): place for steps, place in places.items()}
    return FilledIn(filled, origins, tuple(findings))


@dataclass(frozen=True, slots=True)
class _Input:
    """The first (`at` 0) or second input of a query: the source `name`."""

    pipeline: FieldPath
    given: Mapping[str, object]
    name: str
    plan: QueryPlan
    at: int

    @property
    def path(self) -> FieldPath:
        return (*self.pipeline, "sources", self.name)

    @property
    def section(self) -> Mapping[str, object]:
        found = _mapping(self.given["sources"])[self.name]
        return found if isinstance(found, dict) else {}

    @property
    def files(self) -> object:
        """The section's fields about files."""
        if not self.section:
            return REFUSED
        return {name: value for name, value in self.section.items() if name in _OF_FILES}

    @property
    def places(self) -> dict[str, FieldPath]:
        """Where the fields of the input are written, or would be."""
        inherited = [n for n in _OF_INPUT if n in self.given and n not in self.section]
        return {
            name: (*(self.pipeline if name in inherited else self.path), name) for name in _OF_INPUT
        }

    @property
    def said_time(self) -> str | None:
        """The event time named by the query."""
        name = _SECOND[self.plan.operator][1] if self.at else "event_time"
        found = self.plan.arguments.get(name)
        return None if found is None else str(found)

    def fields(self) -> dict[str, object]:
        """The fields of the input: its own, or by default those of the pipeline."""
        found = {
            name: self.section.get(name, self.given.get(name))
            for name in _OF_INPUT
            if name in self.section or name in self.given
        }
        if "event_time" not in self.section and self.said_time is not None:
            found["event_time"] = self.said_time
        if self.plan.operator == "join_asof" and not self.at:
            found.pop("policy", None)  # state is kept of the versions
        if self.plan.second is not None:
            if self.at and "event_time" not in found and self.plan.operator == "join_asof":
                found["event_time"] = self.plan.arguments["event_time"]
            found = {"event_time": REFUSED, "delay": REFUSED, **found}
        return found

    def findings(self) -> Iterator[Finding]:
        """Problems with the section, other than those of field values."""
        time = self.section.get("event_time")
        said = self.said_time
        if isinstance(time, str) and said is not None and time.lower() != said.lower():
            what = f"the query uses {said} as event time"
            yield Finding((*self.path, "event_time"), what, f"set {said}, or change the query")
        if self.plan.second is None:
            return
        for name, example in (("event_time", "a timestamp column"), ("delay", "10m")):
            if self.section and name not in self.section and self.fields()[name] is REFUSED:
                yield Finding((*self.path, name), f"{name} is missing", f"add {name}: {example}")
        is_kept = self.at or self.plan.operator == "join"
        if (
            "policy" in self.section
            and not is_kept
            and self.plan.second.name.lower() != self.name.lower()
        ):
            what = "no state is kept of the first input of an as-of join"
            fix = "remove it, or set it for the other input"
            yield Finding((*self.path, "policy"), what, fix)


def _check_names(path: FieldPath, fields: Mapping[str, object]) -> Iterator[Finding]:
    if SOURCE in fields:
        what = "source and sources cannot be combined"
        yield Finding((*path, SOURCE), what, "remove one of them")
    if "query" not in fields:
        what = "sources names the tables of a query, and this pipeline has no query"
        fix = "add query: SELECT ... FROM ..., or use source, versions and right"
        yield Finding((*path, "sources"), what, fix)
    known = _names(fields)
    for name in _mapping(fields["sources"]):
        if known[name.lower()] != name:
            what = f"{name} and {known[name.lower()]} are the same name in SQL"
            yield Finding((*path, "sources", name), what, "rename one of them")


def _names(fields: Mapping[str, object]) -> dict[str, str]:
    """The names of sources by their lower-case form; the first one wins."""
    found: dict[str, str] = {}
    for name in _mapping(fields["sources"]):
        found.setdefault(name.lower(), name)
    return found


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
