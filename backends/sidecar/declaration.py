"""What an operator of the sidecar keeps: columns, aggregates, time and shards, fixed for good."""

import base64
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from idlestate.backends.aggregates import AggregateError
from idlestate.backends.aggregation import aggregates_of, aggregation
from idlestate.backends.changes import ADDED_COLUMNS
from idlestate.backends.keys import is_key_type
from idlestate.backends.sidecar.errors import DoesNotFitError
from idlestate.backends.spec import TableSpec
from idlestate.retention.policy import TimeDomain

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
MAX_SHARDS = 32_768


@dataclass(frozen=True, slots=True)
class Declaration:
    """The fixed facts of an operator."""

    uid: str
    time: str
    """`event` or `processing`."""
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]
    """Result name and text, as `("n", "count")`."""
    order: tuple[str, ...]
    schema: str
    """Names and types of the columns that keys, aggregates and order read: Arrow, base64."""
    shards: int

    @classmethod
    def of(cls, uid: str, spec: TableSpec, time: TimeDomain, shards: int) -> "Declaration":
        """The declaration of a table."""
        return cls(
            uid,
            time.value,
            spec.key_names,
            tuple((a.name, a.text) for a in aggregates_of(spec)),
            tuple(name for name, _ in spec.order),
            base64.b64encode(pa.schema(spec.inputs).serialize()).decode(),
            shards,
        )

    def inputs(self) -> pa.Schema:
        """The columns that keys, aggregates and order read."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.schema)))

    def spec(self) -> TableSpec:
        """What the table keeps.

        Raises:
            DoesNotFitError: the parts do not fit together.
        """
        try:
            types = {field.name: field.type for field in self.inputs()}
            return TableSpec(
                tuple((name, types[name]) for name in self.keys),
                aggregation(dict(self.aggregates), types, self.order),
                tuple((name, types[name]) for name in self.order),
            )
        except (AggregateError, KeyError, ValueError, pa.ArrowInvalid, OSError) as error:
            raise DoesNotFitError(f"operator {self.uid!r} cannot be declared: {error}") from error

    def check_columns(self) -> None:
        """Refuse keys that could not be told apart, values that would be added up wrongly, and
        names that would stand twice: in what is new, for what is stored is opened as it is.

        Raises:
            DoesNotFitError: a column is of another type than it can be, or a name is taken.
        """
        spec = self.spec()
        for aggregate in aggregates_of(spec):
            for _, kind in aggregate.inputs:
                is_odd = pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind)
                if is_odd or pa.types.is_unsigned_integer(kind):
                    raise DoesNotFitError(
                        f"operator {self.uid!r}: aggregate {aggregate.name}: {aggregate.text} "
                        f"reads a column of type {kind}; cast it to a signed integer or to a "
                        "decimal of 128 bits first"
                    )
        for name, kind in spec.keys:
            if not is_key_type(kind):
                raise DoesNotFitError(
                    f"operator {self.uid!r}: key column {name} is of type {kind}; keys are "
                    "strings, binaries, integers, booleans, dates or timestamps: cast it first"
                )
        taken = set(ADDED_COLUMNS)
        for name in (*spec.key_names, *(name for name, _ in spec.kind.results)):
            if name.lower() in taken:  # to Spark SQL names that differ in case alone are the same
                raise DoesNotFitError(
                    f"operator {self.uid!r}: the name {name} is used twice among keys, aggregates "
                    f"and the columns that idlestate adds ({', '.join(ADDED_COLUMNS)}); use "
                    "another name"
                )
            taken.add(name.lower())

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Declaration":
        """Read it back.

        Raises:
            DoesNotFitError: something is missing, or is none of its kind.
        """
        try:
            found = cls(
                uid=check_name("uid", facts["uid"]),
                time=TimeDomain(facts["time"]).value,
                keys=tuple(str(name) for name in facts["keys"]),
                aggregates=tuple((str(name), str(text)) for name, text in facts["aggregates"]),
                order=tuple(str(name) for name in facts["order"]),
                schema=str(facts["schema"]),
                shards=int(facts["shards"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DoesNotFitError(f"a declaration cannot be read: {error!r}") from error
        if not found.keys or not 1 <= found.shards <= MAX_SHARDS:
            raise DoesNotFitError(
                f"operator {found.uid!r}: it needs a key, and 1 to {MAX_SHARDS} shards"
            )
        return found

    def differences(self, other: "Declaration") -> list[str]:
        """What another declaration of the same operator says otherwise, in words."""
        mine, theirs = self.to_json(), other.to_json()
        mine["schema"], theirs["schema"] = (str(each.inputs()) for each in (self, other))
        return [
            f"{name} was {mine[name]}, is now {theirs[name]}"
            for name in mine
            if mine[name] != theirs[name]
        ]


def check_name(what: str, name: object) -> str:
    """The name, if it may stand in paths and in logs.

    Raises:
        DoesNotFitError: it may not.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise DoesNotFitError(
            f"{what} {str(name)[:80]!r}: use letters, digits, '.', '_' and '-', beginning with a "
            "letter or digit, 63 at most"
        )
    return name
