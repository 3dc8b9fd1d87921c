"""Rules between the fields of pipelines, selectors and policies.

These rules check the document as it was read from the file, not models, and ignore values that are
missing or of another type (the models report those). So one wrong field hides no other problem.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from idlestate.config.nearest_name import nearest
from idlestate.config.path_conflicts import Place, check_places
from idlestate.config.problems import FieldPath, Finding, listed
from idlestate.config.sql.aggregate_text import problem_with
from idlestate.retention.added_columns import ADDED_COLUMNS
from idlestate.retention.durations import DurationError, duration_ms
from idlestate.retention.policy import TimeDomain
from idlestate.retention.shown_values import show
from idlestate.retention.windows import WINDOW_END, WINDOW_START

"""Returns the problem with an aggregate such as `max(event_time)`; None if it is valid."""

_EVENT_TIME_ONLY = ("delay", "max_ahead", "min_event_time")
_CSV_ONLY = ("header", "delimiter", "escape")
_KINDS = ("retain", "deduplicate", "over", "process", "co_process", "join", "join_asof")
_JOINS = ("join", "join_asof")
_OF_TWO_INPUTS = (*_JOINS, "co_process")
_FUNCTIONS = ("process", "co_process")
_SECOND_INPUTS = ("versions", "right")
_ONLY_FOR = {
    "idle_after": _OF_TWO_INPUTS,
    "aggregates": ("retain", "over"),
    "renamed": ("retain", *_FUNCTIONS),
    "read_when": ("retain", "process"),
    **dict.fromkeys(("window", "fire_after"), ("retain",)),
    "keep": ("deduplicate",),
    **dict.fromkeys(("rows", "range"), ("over",)),
    **dict.fromkeys(("function", "output", "columns", "on_error"), _FUNCTIONS),
    "versions": ("join_asof",),
    "right": ("join", "co_process"),
    "between": ("join",),
    "how": _JOINS,
    "order": ("retain", "deduplicate", "over", *_FUNCTIONS, "join_asof"),
    "in_order": ("retain", "deduplicate", *_FUNCTIONS),
}
"""Fields that not every kind of operator takes."""
_SINKS_ONLY_FOR = {
    "expired": ("retain", "deduplicate"),
    "rejects": ("retain", "deduplicate", "process", *_OF_TWO_INPUTS),
}
_NEEDED = {
    "aggregates": (("retain", "over"), "{events: count}"),
    "function": (_FUNCTIONS, "my_job.alerts:Alert"),
    "output": (_FUNCTIONS, '"id string, n bigint"'),
    "versions": (
        ("join_asof",),
        "{source: {path: prices, format: parquet}, event_time: valid_from}",
    ),
    "right": (
        ("join", "co_process"),
        "{source: {path: payments, format: parquet}, event_time: paid_at}",
    ),
}
"""Fields without which a kind has no meaning, and examples."""
_RIGHT_ONLY_FOR = {"policy": ("join",), "columns": ("co_process",)}
_NOT_WITH_WINDOW = ("policy", "read_when")


@dataclass(frozen=True, slots=True)
class Raw:
    """A section of the document: its path, and its content if that has the expected type."""

    path: FieldPath
    value: object

    def __getitem__(self, name: str) -> "Raw":
        found = self.value.get(name) if isinstance(self.value, dict) else None
        return Raw((*self.path, name), found)

    @property
    def fields(self) -> dict[str, object]:
        """The fields of a mapping; none for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list["Raw"]:
        """The entries of a list; none for anything else."""
        entries = self.value if isinstance(self.value, list) else []
        return [Raw((*self.path, at), entry) for at, entry in enumerate(entries)]

    @property
    def sections(self) -> list["Raw"]:
        """The values of a mapping, each with its path."""
        return [self[name] for name in self.fields]

    @property
    def text(self) -> str | None:
        """The value if it is text; else None."""
        return self.value if isinstance(self.value, str) else None

    @property
    def name(self) -> str:
        """The last step of the path."""
        return str(self.path[-1])


def check_policy_name(named: Raw, known: Mapping[str, object]) -> Iterator[Finding]:
    """Refuse the name of a policy that the file does not have."""
    if named.text is not None and named.text not in known:
        meant = nearest(named.text, known)
        fix = f"use {meant}" if meant else f"the policies are {listed(known)}"
        if not known:
            fix = (
                f"add policies: {{{named.text}: {{idle: {{min: 30m, max: 45m}}}}}} at the top level"
            )
        yield Finding(named.path, f"unknown policy {show(named.text)}", fix)


def check_pipelines(
    pipelines: Raw,
    time_of: Callable[[Raw], TimeDomain | None],
) -> Iterator[Finding]:
    """All rules about pipelines, except the one about the policy's name.

    `time_of` returns the time domain of a pipeline's policy, None if it is not known.
    """
    folded: dict[str, str] = {}
    for pipeline in pipelines.sections:
        if twin := folded.get(pipeline.name.lower()):
            what = (
                f"{pipeline.name} and {twin} differ only in case and share a folder on some systems"
            )
            yield Finding(pipeline.path, what, "rename one of them")
        folded.setdefault(pipeline.name.lower(), pipeline.name)
        if pipeline.fields:
            yield from _check_time(pipeline, time_of(pipeline))
            for source in _sources(pipeline):
                yield from _check_source(source)
            if "key" not in pipeline.fields:
                what, fix = "key is missing", "add key: [session_id], or a query"
                yield Finding((*pipeline.path, "key"), what, fix)
            yield from _check_kind(pipeline)
            yield from _check_window(pipeline)
            yield from _check_fire_after(pipeline)
            yield from _check_columns(pipeline)
            yield from _check_shards(pipeline)
            yield from _check_aggregates(pipeline["aggregates"])
            yield from check_renamed(pipeline)
    sources = {
        each.name: [
            Place(source["path"].path, text)
            for source in _sources(each)
            if (text := source["path"].text)
        ]
        for each in pipelines.sections
    }
    yield from check_places(
        sources, {each.name: list(_outputs(each)) for each in pipelines.sections}
    )


def _check_time(pipeline: Raw, time: TimeDomain | None) -> Iterator[Finding]:
    if time is TimeDomain.EVENT:
        for name, example in (("event_time", "a timestamp column"), ("delay", "10m")):
            if name not in pipeline.fields:
                what = f"{name} is missing, and the policy uses event time"
                fix = f"add {name}: {example}, or set time: processing in the policy"
                yield Finding((*pipeline.path, name), what, fix)
    is_join = pipeline["kind"].text in _JOINS  # which `join_policies` checks
    for name in _EVENT_TIME_ONLY if time is TimeDomain.PROCESSING and not is_join else ():
        if name in pipeline.fields:
            what = f"{name} applies to event time, but the policy sets time: processing"
            fix = "remove it, or set time: event in the policy"
            yield Finding((*pipeline.path, name), what, fix)


def _check_source(source: Raw) -> Iterator[Finding]:
    kind = source["format"].text
    unused = [] if kind in (None, "csv") else list(_CSV_ONLY)
    if kind == "parquet":
        unused.append("timestamp_format")
    for name in unused:
        if name in source.fields:
            what = f"{name} does not apply to {kind} files"
            yield Finding((*source.path, name), what, "remove it")


def _check_kind(pipeline: Raw) -> Iterator[Finding]:
    kind = pipeline["kind"].text or "retain"
    for name, (kinds, example) in _NEEDED.items():
        if kind in kinds and name not in pipeline.fields:
            yield Finding((*pipeline.path, name), f"{name} is missing", f"add {name}: {example}")
    for section, only in (
        (pipeline, _ONLY_FOR),
        (pipeline["sinks"], _SINKS_ONLY_FOR),
        (pipeline["right"], _RIGHT_ONLY_FOR),
    ):
        for name, kinds in only.items():
            if name in section.fields and kind in _KINDS and kind not in kinds:
                what = f"{name} does not apply to kind: {kind}"
                fix = "remove it"
                if "query" in pipeline.fields:
                    what += ", which the query is"
                else:
                    fix += f", or set kind: {' or '.join(kinds)}"
                yield Finding((*section.path, name), what, fix)
    how = pipeline["how"].text
    if kind == "join_asof" and how in ("right", "full", "semi", "anti"):
        what = f"how: {how} does not apply to kind: join_asof"
        yield Finding((*pipeline.path, "how"), what, "use inner or left, or set kind: join")
    if {"rows", "range"} <= {*pipeline.fields}:
        what = "rows and range cannot be combined"
        yield Finding((*pipeline.path, "range"), what, "remove one of them")
    is_last = kind == "deduplicate" and pipeline["keep"].text == "last"
    if is_last and "expired" not in pipeline["sinks"].fields:
        what = "with keep: last, records are emitted only to the expired sink, which is not set"
        yield Finding((*pipeline.path, "sinks"), what, "add expired: PATH to sinks")
    if pipeline["on_error"].text == "reject" and "rejects" not in pipeline["sinks"].fields:
        what = "with on_error: reject, rejected records go to the rejects sink, which is not set"
        yield Finding((*pipeline.path, "sinks"), what, "add rejects: PATH to sinks")


def _check_window(pipeline: Raw) -> Iterator[Finding]:
    for name in _NOT_WITH_WINDOW if "window" in pipeline.fields else ():
        if name in pipeline.fields:
            what = f"{name} cannot be combined with window"
            fix = "remove it, a window ends by itself"
            if name == "read_when":
                fix = "remove it, every record of a window is a write"
            yield Finding((*pipeline.path, name), what, fix)


def _check_fire_after(pipeline: Raw) -> Iterator[Finding]:
    if "fire_after" not in pipeline.fields:
        return
    path = (*pipeline.path, "fire_after")
    if "window" not in pipeline.fields:
        yield Finding(path, "fire_after applies to windows", "remove it, or add window")
    try:
        spans = [duration_ms(pipeline[name].value) for name in ("fire_after", "delay")]
    except DurationError:
        return
    if spans[0] > spans[1]:
        what = "fire_after is longer than delay, after which windows are final"
        yield Finding(path, what, f"use at most {pipeline['delay'].value}")


def _check_columns(pipeline: Raw) -> Iterator[Finding]:
    """Refuse names that would occur twice in the output; Spark ignores their case."""
    added = (*ADDED_COLUMNS, *((WINDOW_START, WINDOW_END) if "window" in pipeline.fields else ()))
    taken = dict.fromkeys(added, "a column that idlestate adds")
    for key in pipeline["key"].items:
        if key.text and key.text.lower() in added:
            what = f"{show(key.text)} is the name of a column that idlestate adds"
            yield Finding(key.path, what, "rename the column in the source")
        taken[(key.text or "").lower()] = "a key column"
    for aggregate in pipeline["aggregates"].sections:
        if user := taken.get(aggregate.name.lower()):
            what = f"{show(aggregate.name)} is the name of {user}"
            yield Finding(aggregate.path, what, "rename the aggregate")
        taken[aggregate.name.lower()] = "another aggregate"


def _check_shards(pipeline: Raw) -> Iterator[Finding]:
    partitions, shards = pipeline["state_partitions"].value, pipeline["shards"].value
    if not (isinstance(partitions, int) and isinstance(shards, int)) or partitions < 1:
        return
    if shards % partitions:
        what = f"shards {shards} is not a multiple of state_partitions {partitions}"
        fix = f"use a multiple of {partitions}, such as {4 * partitions}"
        yield Finding((*pipeline.path, "shards"), what, fix)


def _check_aggregates(aggregates: Raw) -> Iterator[Finding]:
    for aggregate in aggregates.sections:
        if aggregate.text and (wrong := problem_with(aggregate.text)):
            fix = "use a function of the source's columns, such as count or max(event_time)"
            yield Finding(aggregate.path, wrong, fix)


def check_renamed(section: Raw) -> Iterator[Finding]:
    """Refuse names in `renamed` that are not aggregates, and old names that are used twice."""
    names, claimed = section["aggregates"].fields, dict[str, str]()
    for old in section["renamed"].sections:
        if names and old.name not in names:
            what = f"{show(old.name)} is not an aggregate"
            yield Finding(old.path, what, f"use one of {listed(names)}")
        if old.text == old.name:
            what = f"{show(old.name)} has the same name as before"
            yield Finding(old.path, what, "remove the entry")
        elif old.text in claimed:
            what = f"{show(old.text)} is the old name of {claimed[old.text]} too"
            yield Finding(old.path, what, "remove one of them")
        claimed.setdefault(old.text or "", old.name)


def _sources(pipeline: Raw) -> Iterator[Raw]:
    yield pipeline["source"]
    for name in _SECOND_INPUTS:
        yield pipeline[name]["source"]


def _outputs(pipeline: Raw) -> Iterator[Place]:
    sinks = pipeline["sinks"]
    for place in (sinks["results"], sinks["expired"], sinks["rejects"], pipeline["checkpoint"]):
        if place.text:
            yield Place(place.path, place.text)
    if runs := pipeline["runs"].text:
        yield Place(pipeline["runs"].path, runs, is_shared=True)
