"""The declaration of an operator of the sidecar: its definition and its shards."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from idlestate.backends.runs.keys import is_key_type
from idlestate.backends.shards.aggregates import Aggregate
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.definition_change import check_renamed, compare_definitions
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.sql.aggregate_text import AggregateError
from idlestate.errors import RefusedError
from idlestate.retention.added_columns import ADDED_COLUMNS, used_twice
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.sidecar.protocol.errors import DoesNotFitError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
MAX_SHARDS = 32_768


@dataclass(frozen=True, slots=True)
class Declaration:
    """An operator's uid, definition and number of shards."""

    uid: str
    definition: Definition
    shards: int

    @classmethod
    def of(
        cls,
        uid: str,
        spec: TableSpec,
        time: TimeDomain,
        shards: int,
        renamed: Mapping[str, str] | None = None,
    ) -> "Declaration":
        """The declaration of a table; `renamed` as for `retain`."""
        return cls(uid, Definition.of(spec, time, renamed), shards)

    @property
    def time(self) -> str:
        """`event` or `processing`."""
        return self.definition.time

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return self.definition.keys

    def inputs(self) -> pa.Schema:
        """The columns that keys, aggregates and order read."""
        return self.definition.inputs()

    def spec(self) -> TableSpec:
        """The spec of the table.

        Raises:
            DoesNotFitError: the parts contradict each other.
        """
        try:
            return self.definition.spec()
        except (AggregateError, KeyError, ValueError, pa.ArrowInvalid, OSError) as error:
            raise DoesNotFitError(f"operator {self.uid!r} cannot be declared: {error}") from error

    def check_time(self, policy: Policy) -> None:
        """Refuse a policy with another time domain.

        Raises:
            DoesNotFitError: the time domains differ.
        """
        if policy.time.value != self.time:
            raise DoesNotFitError(
                f"operator {self.uid!r} uses {self.time} time, its policy {policy.time.value} time"
            )

    def check_columns(self) -> None:
        """Refuse types of keys that cannot be compared, types of values that cannot be summed
        exactly, and duplicate names. Applies to new declarations, not to stored ones.

        Raises:
            DoesNotFitError: the type of a column is not supported, or a name is taken.
        """
        spec = self.spec()
        aggregates = {name: text for name, text, _ in self.definition.aggregates}
        wrong = check_renamed(aggregates, dict(self.definition.renamed))
        if wrong:
            raise DoesNotFitError(f"operator {self.uid!r}: {wrong}")
        bound = [each for each in spec.kind.aggregates if isinstance(each, Aggregate)]
        for aggregate in bound:
            for _, kind in aggregate.inputs:
                is_odd = pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind)
                if is_odd or pa.types.is_unsigned_integer(kind):
                    raise DoesNotFitError(
                        f"operator {self.uid!r}: aggregate {aggregate.name}: {aggregate.text} "
                        f"reads a column of type {kind}; cast it to a signed integer or to a "
                        "decimal of 128 bits first"
                    )
        for own in spec.own.values():
            try:
                own.need_class()
            except RefusedError as error:
                raise DoesNotFitError(f"operator {self.uid!r}: {error}") from error
        for name, kind in spec.keys:
            if not is_key_type(kind):
                raise DoesNotFitError(
                    f"operator {self.uid!r}: key column {name} is of type {kind}; keys are "
                    "strings, binaries, integers, booleans, dates or timestamps: cast it first"
                )
        twice = used_twice(name for name, _ in (*spec.shown_keys, *spec.kind.results))
        if twice is not None:
            raise DoesNotFitError(
                f"operator {self.uid!r}: the name {twice} is used twice among keys, aggregates "
                f"and the columns that idlestate adds ({', '.join(ADDED_COLUMNS)}); use another "
                "name"
            )

    def taking_over(self, before: "Declaration") -> "Declaration":
        """This declaration with the ids under which it finds the state of an earlier one.

        Raises:
            DoesNotFitError: the state cannot be taken over.
        """
        found = compare_definitions(before.definition, self.definition)
        differences = found.refusals
        if self.shards != before.shards:
            differences.append(f"shards was {before.shards}, is now {self.shards}")
        if differences:
            raise DoesNotFitError(
                f"operator {self.uid!r} changed since the sidecar created it: "
                f"{'; '.join(differences)}; restore it, or use another uid"
            )
        return replace(self, definition=found.definition)

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return {"uid": self.uid, "shards": self.shards, **self.definition.to_json()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Declaration":
        """Read it back.

        Raises:
            DoesNotFitError: something is missing or not valid.
        """
        try:
            uid = check_name("uid", facts["uid"])
            definition = {name: facts[name] for name in facts.keys() - {"uid", "shards"}}
            found = cls(uid, Definition.from_json(definition), int(facts["shards"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DoesNotFitError(f"a declaration cannot be read: {error!r}") from error
        if not 1 <= found.shards <= MAX_SHARDS:
            raise DoesNotFitError(f"operator {found.uid!r}: it needs 1 to {MAX_SHARDS} shards")
        return found


def check_name(what: str, name: object) -> str:
    """The name, if it is safe in paths and in logs.

    Raises:
        DoesNotFitError: it is not.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise DoesNotFitError(
            f"{what} {str(name)[:80]!r}: use letters, digits, '.', '_' and '-', beginning with a "
            "letter or digit, 63 at most"
        )
    return name
