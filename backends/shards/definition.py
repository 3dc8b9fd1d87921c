"""The definition of an operator as it is written down, and what becomes of state when it changes.

A checkpoint and a sidecar keep the definition beside the state. In it each aggregate has an id that
names its columns in runs (`idlestate.backends.runs.table_schema`) and is never given to another
aggregate. So nothing is rewritten when a definition changes: runs are read with the columns of
today, and merges write these. What a changed definition cannot read is refused before anything
starts:

| aggregate | its state |
|---|---|
| same name and text, same types | kept |
| same name and text, columns of a wider type | widened as it is read |
| new name, given by `renamed` | renamed: kept under the new name |
| another new name | added: open lives begin it empty |
| a name that is gone | dropped: not read any more |
| same name, another text or a type that is not wider | refused |

A sum of decimals is carried as an integer in units of the column's last digit: another scale would
change what the integer means, and is refused. `count(x)` keeps no value, so that x may be of any
type. Keys, time domain and the names of the order columns are fixed.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from idlestate.backends.runs.table_schema import widens
from idlestate.backends.shards.aggregates import Aggregate, bind
from idlestate.backends.shards.operator_kinds import kind_of
from idlestate.backends.shards.sums import Count, ExactSum
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.aggregate_text import parse_call
from idlestate.retention.policy import TimeDomain

KEPT, WIDENED, RENAMED, ADDED, DROPPED = "kept", "widened", "renamed", "added", "dropped"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of an aggregate, or of another part of a definition that cannot change.

    Attributes:
        name: the aggregate as it is called now, or the part.
        became: `kept`, `widened`, `renamed`, `renamed, widened`, `added`, `dropped` or `refused`.
        detail: what changed; of a refusal a clause with the difference and, for an aggregate, the
            way out.
    """

    name: str
    became: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Takeover:
    """What becomes of state under a changed definition.

    Attributes:
        definition: the changed one with the ids under which it finds the state.
        changes: every aggregate, and what else is refused.
    """

    definition: "Definition"
    changes: tuple[Change, ...]

    @property
    def refusals(self) -> list[str]:
        """Why the state cannot be taken over; empty when it can."""
        return [each.detail for each in self.changes if each.became == REFUSED]


@dataclass(frozen=True, slots=True)
class Definition:
    """Kind, keys, aggregates, order columns and time domain of an operator."""

    kind: str
    """The kind of operator, as `aggregate`."""
    time: str
    """`event` or `processing`."""
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str, int], ...]
    """Result name, text and id, as `("n", "count", 0)`."""
    order: tuple[str, ...]
    schema: str
    """Names and types of the columns that keys, aggregates and order read: Arrow, base64."""
    next_id: int
    """The id of the next aggregate that is added."""
    renamed: tuple[tuple[str, str], ...] = ()
    """New and old names of aggregates; only in a definition that is asked for."""

    @classmethod
    def of(
        cls, spec: TableSpec, time: TimeDomain, renamed: Mapping[str, str] | None = None
    ) -> "Definition":
        """The definition of a table."""
        found = tuple((each.name, each.text, each.id) for each in spec.kind.aggregates)
        return cls(
            spec.kind.name,
            time.value,
            spec.key_names,
            found,
            tuple(name for name, _ in spec.order),
            base64.b64encode(pa.schema(spec.inputs).serialize()).decode(),
            max((number for _, _, number in found), default=-1) + 1,
            tuple((renamed or {}).items()),
        )

    @property
    def kept(self) -> "Definition":
        """As it is kept: what was renamed matters to the change alone."""
        return replace(self, renamed=())

    def inputs(self) -> pa.Schema:
        """The columns that keys, aggregates and order read."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.schema)))

    def spec(self) -> TableSpec:
        """What the table keeps.

        Raises:
            AggregateError: an aggregate makes no sense.
            KeyError, ValueError: the parts do not fit together.
        """
        types = {field.name: field.type for field in self.inputs()}
        texts = {name: text for name, text, _ in self.aggregates}
        numbers = [number for _, _, number in self.aggregates]
        bound = tuple(
            replace(each, id=number)
            for each, number in zip(bind(texts, types, self.order), numbers, strict=True)
        )
        return TableSpec(
            tuple((name, types[name]) for name in self.keys),
            kind_of(self.kind, bound, self.order),
            tuple((name, types[name]) for name in self.order),
        )

    def judged(self, before: "Definition") -> Takeover:
        """What becomes of state that was kept under an earlier definition."""
        if before.kind != self.kind:
            return Takeover(self.kept, (refused("kind", before.kind, self.kind),))
        was, now = before.spec(), self.spec()
        changes = [*_fixed(before, self, was, now)]
        old = {each.name: each for each in was.kind.aggregates}
        sources = {
            name: source for name, source in self.renamed if name not in old and source in old
        }
        changes += _lost_names(self.renamed, old, {each.name for each in now.kind.aggregates})
        ids, next_id = {}, before.next_id
        moved = set(sources.values())
        for each in now.kind.aggregates:
            stays = None if each.name in moved else old.get(each.name)
            found = old[sources[each.name]] if each.name in sources else stays
            if found is None:
                ids[each.name], next_id = next_id, next_id + 1
                changes.append(Change(each.name, ADDED, each.text))
            else:
                ids[each.name] = found.id
                changes.append(_of_aggregate(found, each))
        taken = {*ids, *moved}
        changes += [Change(each, DROPPED, old[each].text) for each in old if each not in taken]
        aggregates = tuple((name, text, ids[name]) for name, text, _ in self.aggregates)
        definition = replace(self, aggregates=aggregates, next_id=next_id, renamed=())
        return Takeover(definition, tuple(changes))

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Definition":
        """Read it back.

        Raises:
            KeyError, TypeError, ValueError: something is missing, or is not of its kind.
        """
        aggregates = tuple(
            (str(name), str(text), int(number)) for name, text, number in facts["aggregates"]
        )
        next_id = int(facts["next_id"])
        numbers = {number for _, _, number in aggregates}
        if len(numbers) < len(aggregates) or any(not 0 <= each < next_id for each in numbers):
            raise ValueError(f"the ids of the aggregates are {sorted(numbers)}, below {next_id}")
        return cls(
            str(facts["kind"]),
            TimeDomain(facts["time"]).value,
            tuple(str(name) for name in facts["keys"]),
            aggregates,
            tuple(str(name) for name in facts["order"]),
            str(facts["schema"]),
            next_id,
            tuple((str(new), str(old)) for new, old in facts["renamed"]),
        )


def check_renamed(aggregates: Mapping[str, str], renamed: Mapping[str, str]) -> str | None:
    """What is wrong with `renamed`, whatever the state holds; None if nothing is."""
    for name, old in renamed.items():
        if name not in aggregates:
            return f"renamed: {name} is not an aggregate; use {', '.join(aggregates)}"
        if name == old:
            return f"renamed: {name} has the same name as before; remove the entry"
    names = list(renamed.values())
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        return f"renamed: {twice} is the old name of several aggregates; keep one of them"
    return None


def refused(part: str, was: object, now: object) -> Change:
    """The refusal of a part that is fixed."""
    return Change(part, REFUSED, f"{part} was {was or 'none'}, is now {now or 'none'}")


def _fixed(
    before: Definition, after: Definition, was: TableSpec, now: TableSpec
) -> Iterator[Change]:
    if before.time != after.time:
        yield refused("time", before.time, after.time)
    if was.keys != now.keys:
        yield refused("keys", _listed(was.keys), _listed(now.keys))
    if before.order != after.order:
        yield refused("order", _listed(was.order), _listed(now.order))
    else:
        for (name, old), (_, new) in zip(was.order, now.order, strict=True):
            if not widens(old, new):
                yield refused(f"order column {name}", old, new)


def _lost_names(
    renamed: tuple[tuple[str, str], ...], old: Mapping[str, Aggregate], now: set[str]
) -> Iterator[Change]:
    for name, source in renamed:
        if name not in old and source not in old:
            yield Change(
                name,
                REFUSED,
                f"renamed: the state has no aggregate {source} (it has {', '.join(old)}); correct "
                f"the name, or remove the entry to add {name}",
            )
        elif name in old and source in old and source not in now:
            yield Change(
                name,
                REFUSED,
                f"renamed: the state has both {name} and {source}; remove the entry to drop "
                f"{source}, or drop {name} first and rename {source} in a later start",
            )


def _of_aggregate(old: Aggregate, new: Aggregate) -> Change:
    is_renamed = old.name != new.name
    called = f"{new.name} (before: {old.name})" if is_renamed else new.name
    if parse_call(old.text) != parse_call(new.text):
        return Change(
            new.name,
            REFUSED,
            f"aggregate {called} was {old.text}, is now {new.text}: give the new one another name",
        )
    retyped = [] if isinstance(old.accumulator, Count) else _retyped(old, new)
    for name, was, now in retyped:
        if not widens(was, now):
            return _of_other_type(called, new, name, was, now, "which is not wider")
        is_sum = isinstance(old.accumulator, ExactSum) and pa.types.is_decimal(was)
        if is_sum and was.scale != now.scale:
            return _of_other_type(called, new, name, was, now, "of another scale")
    became = [RENAMED] if is_renamed else []
    details = [f"was {old.name}"] if is_renamed else []
    if retyped:
        became.append(WIDENED)
        details += [f"{name} was {was}, is now {now}" for name, was, now in retyped]
    return Change(new.name, ", ".join(became) or KEPT, "; ".join(details) or new.text)


def _retyped(old: Aggregate, new: Aggregate) -> list[tuple[str, pa.DataType, pa.DataType]]:
    now = dict(new.inputs)
    return [(name, was, now[name]) for name, was in old.inputs if was != now.get(name, was)]


def _of_other_type(
    called: str, new: Aggregate, name: str, was: pa.DataType, now: pa.DataType, why: str
) -> Change:
    return Change(
        new.name,
        REFUSED,
        f"aggregate {called}: column {name} was {was}, is now {now}, {why}: cast it to {was}, or "
        "give the aggregate another name",
    )


def _listed(columns: tuple[tuple[str, pa.DataType], ...]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in columns)
