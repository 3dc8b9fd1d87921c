"""Changes of an operator's definition, and their effect on its state.

Nothing is rewritten when a definition changes: runs are read with the current columns, and merges
write the current columns. A change under which the state cannot be read is refused before anything
starts:

| aggregate | its state |
|---|---|
| same name and text, same types | kept |
| same name and text, columns of a wider type | widened as it is read |
| new name, given by `renamed` | renamed: kept under the new name |
| another new name | added: empty for open lives |
| a removed name | dropped: no longer read |
| same name, another text or a type that is not wider | refused |

States of functions change in the same way, but lists and maps do not widen. A value may gain or
lose a time to live: for values written before, it counts from the last write of their life. A time
to live may change (`idlestate.backends.shards.changed_ttls`). With `in_order`, waiting records
contain the columns that a function sees, so these must keep their type or widen. A dropped column
may return with any type: it is a new column, null in records that were already waiting.

A sum of decimals is stored as an integer in units of the column's last digit, and
`approx_count_distinct` hashes such integers. Another scale would change their meaning, and is
refused. Lists, and frames of `over`, store column values one after the other, so these columns must
keep their type. `count(x)` stores no value, so x may have any type. Keys, windows, time domain and
the names of the order columns are fixed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from idlestate.backends.runs.table_schema import widens
from idlestate.backends.shards.aggregates import Aggregate
from idlestate.backends.shards.approximate_distinct_counts import ApproxDistinct
from idlestate.backends.shards.collected_values import Collected, DistinctCount
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.function_state_columns import ONE_VALUE, WITH_TTL, StateColumns
from idlestate.backends.shards.operator_kind import INPUT_NUMBER
from idlestate.backends.shards.own_accumulator import OwnAccumulator, listed, state_of
from idlestate.backends.shards.sums import Count, ExactSum
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.sql.aggregate_text import parse_call

KEPT, WIDENED, RENAMED, ADDED, DROPPED = "kept", "widened", "renamed", "added", "dropped"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to an aggregate, or a refused change to a fixed part of the definition.

    Attributes:
        name: the aggregate's new name, or the part.
        became: `kept`, `widened`, `renamed`, `renamed, widened`, `added`, `dropped` or `refused`.
        detail: what changed; for a refusal the difference and, for an aggregate, the fix.
    """

    name: str
    became: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Takeover:
    """What happens to state under a changed definition.

    Attributes:
        definition: the changed definition, with the ids under which its state is stored.
        changes: every aggregate, and other refused parts.
    """

    definition: Definition
    changes: tuple[Change, ...]

    @property
    def refusals(self) -> list[str]:
        """Why the state cannot be taken over; empty if it can."""
        return [each.detail for each in self.changes if each.became == REFUSED]


def compare_definitions(before: Definition, after: Definition) -> Takeover:
    """What happens to state that was written under an earlier definition."""
    if before.kind != after.kind:
        return Takeover(after.kept, (refused("kind", before.kind, after.kind),))
    was, now = before.spec(), after.spec()
    changes = [*_fixed(before, after, was, now)]
    old = {each.name: each for each in was.kind.aggregates}
    sources = {name: source for name, source in after.renamed if name not in old and source in old}
    changes += _lost_names(after.renamed, old, {each.name for each in now.kind.aggregates})
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
            changes.append(_of_aggregate(found, each, in_lists=found in was.kind.in_lists))
    taken = {*ids, *moved}
    changes += [Change(each, DROPPED, old[each].text) for each in old if each not in taken]
    aggregates = tuple((name, text, ids[name]) for name, text, _ in after.aggregates)
    definition = replace(after, aggregates=aggregates, next_id=next_id, renamed=())
    return Takeover(_with_numbers(definition, was), tuple(changes))


def check_renamed(aggregates: Mapping[str, str], renamed: Mapping[str, str]) -> str | None:
    """What is wrong with `renamed`, for any state; None if nothing is."""
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
    """The refusal of a change to a fixed part."""
    return Change(part, REFUSED, f"{part} was {was or 'none'}, is now {now or 'none'}")


def _fixed(
    before: Definition, after: Definition, was: TableSpec, now: TableSpec
) -> Iterator[Change]:
    if before.time != after.time:
        yield refused("time", before.time, after.time)
    if was.given_keys != now.given_keys:
        yield refused("keys", _listed(was.given_keys), _listed(now.given_keys))
    if before.window != after.window:
        yield refused("window", before.window, after.window)
    if before.in_order != after.in_order:
        yield refused("in_order", str(before.in_order), str(after.in_order))
    has_two, two_now = (INPUT_NUMBER in dict(spec.order) for spec in (was, now))
    if has_two != two_now:
        yield refused("inputs", 1 + has_two, 1 + two_now)
    elif before.order != after.order:
        yield refused("order", _listed(was.order), _listed(now.order))
    else:
        for (name, old), (_, new) in zip(was.order, now.order, strict=True):
            if not widens(old, new):
                yield refused(f"order column {name}", old, new)
    if after.in_order:
        waiting = was.kind.carried_as_given
        for name, new in now.kind.carried_as_given.items():
            if not widens(waiting.get(name, new), new):
                yield refused(f"column {name}", waiting[name], new)


def _with_numbers(definition: Definition, was: TableSpec) -> Definition:
    """The definition with a number for each added column that may have existed before."""
    number = definition.next_id
    had = dict.fromkeys(was.may_return) | dict(was.numbers)
    has = {name: had.get(name, number) for name in definition.spec().may_return}
    numbers = tuple((name, each) for name, each in has.items() if each is not None)
    next_id = number + (number in has.values())
    return replace(definition, numbers=numbers, next_id=next_id)


def _lost_names(
    renamed: tuple[tuple[str, str], ...], old: Mapping[str, Aggregate | StateColumns], now: set[str]
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


def _of_aggregate(
    old: Aggregate | StateColumns, new: Aggregate | StateColumns, *, in_lists: bool
) -> Change:
    is_renamed = old.name != new.name
    called = f"{new.name} (before: {old.name})" if is_renamed else new.name
    if isinstance(old, StateColumns) or isinstance(new, StateColumns):
        return _of_state(called, old, new)
    if parse_call(old.text) != parse_call(new.text):
        return Change(
            new.name,
            REFUSED,
            f"aggregate {called} was {old.text}, is now {new.text}: give the new one another name",
        )
    if isinstance(old.accumulator, OwnAccumulator) and isinstance(new.accumulator, OwnAccumulator):
        was, now = state_of(old.accumulator.blank), state_of(new.accumulator.blank)
        if was != now:
            what = f"aggregate {called}: its state was {listed(was)}, is now {listed(now)}"
            return Change(new.name, REFUSED, f"{what}: give the aggregate another name")
    has_values = in_lists or not isinstance(old.accumulator, Count)
    retyped = _retyped(old, new) if has_values else []
    for name, was, now in retyped:
        if in_lists or isinstance(old.accumulator, Collected | DistinctCount):
            return _of_other_type(called, new, name, was, now, "but lists keep their type")
        if not widens(was, now):
            return _of_other_type(called, new, name, was, now, "which is not wider")
        has_units = isinstance(old.accumulator, ExactSum | ApproxDistinct)
        if has_units and pa.types.is_decimal(was) and was.scale != now.scale:
            return _of_other_type(called, new, name, was, now, "of another scale")
    became = [RENAMED] if is_renamed else []
    details = [f"was {old.name}"] if is_renamed else []
    if retyped:
        became.append(WIDENED)
        details += [f"{name} was {was}, is now {now}" for name, was, now in retyped]
    return Change(new.name, ", ".join(became) or KEPT, "; ".join(details) or new.text)


def _of_state(called: str, old: Aggregate | StateColumns, new: Aggregate | StateColumns) -> Change:
    (_, was), (_, now) = *old.inputs, *new.inputs
    is_one_value = old.text.removesuffix(WITH_TTL) in ONE_VALUE
    same_kind = old.text.removesuffix(WITH_TTL) == new.text.removesuffix(WITH_TTL)
    fits = widens(was, now) if is_one_value else was == now and old.text == new.text
    if not same_kind or not fits:
        return Change(
            new.name,
            REFUSED,
            f"state {called} was {old.text} {was}, is now {new.text} {now}: give the new one "
            "another name",
        )
    became = [RENAMED] * (old.name != new.name) + [WIDENED] * (was != now)
    return Change(new.name, ", ".join(became) or KEPT, f"{new.text} {now}")


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
