"""The definition of an operator, as checkpoints and sidecars store it with the state.

Each aggregate has an id, which names its columns in runs (`idlestate.backends.runs.table_schema`)
and is never reused. A stored column that may later exist without its aggregate has a name, and a
number if a later start added it. `definition_change` compares two definitions.
"""

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from idlestate.backends.shards.json_fields import read_fields
from idlestate.backends.shards.operator_kinds import is_of_sides, kind_of, schema_of
from idlestate.backends.shards.own_accumulator import Classes, read_blank
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import TimeDomain
from idlestate.retention.shown_values import show
from idlestate.retention.windows import parse_window


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
    """The id of the next aggregate, or the number of the next columns, to be added."""
    renamed: tuple[tuple[str, str], ...] = ()
    """New and old names of aggregates; set only in the definition of a start, never stored."""
    window: str = ""
    """The windows, such as `hopping(10m, 1m)`; empty without windows."""
    fire_after_ms: int | None = None
    """When windows are first shown, as in `TableSpec`; it may change."""
    in_order: bool = False
    """Whether rows wait until the watermark reaches them."""
    own: tuple[tuple[str, str], ...] = ()
    """Result name and state of each user accumulator, as in `OwnAccumulator`."""
    numbers: tuple[tuple[str, int], ...] = ()
    """Names and numbers of other stored columns that a later start added, as in `TableSpec`."""

    def __post_init__(self) -> None:
        """Check what the types of the fields cannot express.

        Raises:
            ValueError: there are no keys, the time domain is unknown, or ids of aggregates are not
                valid.
        """
        if not self.keys:
            raise ValueError("keys must be at least one")
        if self.time not in set(TimeDomain):
            raise ValueError(f"time must be one of {', '.join(TimeDomain)}, not {show(self.time)}")
        numbers = {number for _, _, number in self.aggregates}
        if len(numbers) < len(self.aggregates) or any(each >= self.next_id for each in numbers):
            raise ValueError(
                f"aggregates: their ids must differ and be less than next_id, {self.next_id}, but "
                f"are {sorted(number for _, _, number in self.aggregates)}"
            )

    @classmethod
    def of(
        cls, spec: TableSpec, time: TimeDomain, renamed: Mapping[str, str] | None = None
    ) -> "Definition":
        """The definition of a table."""
        found = tuple((each.name, each.text, each.id) for each in spec.kind.aggregates)
        return cls(
            spec.kind.name,
            time.value,
            tuple(name for name, _ in spec.given_keys),
            found,
            tuple(name for name, _ in spec.order),
            base64.b64encode(schema_of(spec.kind, spec.inputs).serialize()).decode(),
            max((number for _, _, number in found), default=-1) + 1,
            tuple((renamed or {}).items()),
            str(spec.window or ""),
            spec.fire_after_ms,
            spec.in_order,
            tuple((name, each.written) for name, each in spec.own.items()),
            spec.numbers,
        )

    @property
    def kept(self) -> "Definition":
        """The definition to store: without `renamed`, which matters only at the change."""
        return replace(self, renamed=())

    @property
    def is_of_sides(self) -> bool:
        """As in `TableSpec`."""
        return is_of_sides(self.kind)

    def inputs(self) -> pa.Schema:
        """The columns that keys, aggregates and order read.

        Raises:
            ValueError: the schema is not valid.
        """
        try:
            return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.schema)))
        except (ValueError, OSError) as error:
            raise ValueError(f"schema is not an Arrow schema in base64: {error}") from error

    def spec(self, classes: Classes | None = None) -> TableSpec:
        """The spec of the table.

        Args:
            classes: classes of users' accumulators that cannot be imported.

        Raises:
            AggregateError: an aggregate is not valid.
            KeyError, ValueError: the parts contradict each other.
        """
        schema = self.inputs()
        types = {field.name: field.type for field in schema}
        blanks = {name: read_blank(written) for name, written in self.own}
        return TableSpec.of_windows(
            tuple((name, types[name]) for name in self.keys),
            kind_of(self.kind, self.aggregates, schema, self.order, classes, blanks),
            tuple((name, types[name]) for name in self.order),
            parse_window(self.window) if self.window else None,
            self.fire_after_ms,
            in_order=self.in_order,
            numbers=self.numbers,
        )

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Definition":
        """Read it back.

        Raises:
            FieldError: something is missing or not valid.
        """
        return read_fields(cls, facts)
