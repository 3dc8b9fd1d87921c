"""The schema of a state, stored with its rows, so that they can be read without the program."""

import base64
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from idlestate.state.byte_layout import ROW_VERSION, ValueLayout
from idlestate.state.codec import CODEC_VERSION
from idlestate.state.descriptors import StateDescriptor, StateKind
from idlestate.state.errors import StateArgumentError


@dataclass(frozen=True, slots=True)
class StateSchema:
    """The schema of one stored state.

    Attributes:
        name: its name.
        kind: its kind.
        value_type: Arrow type of stored values.
        user_key_type: Arrow type of map keys; None for other kinds.
        stamped: whether values have timestamps.
        family: the column family of its rows in RocksDB.
    """

    name: str
    kind: StateKind
    value_type: pa.DataType
    user_key_type: pa.DataType | None
    stamped: bool
    family: str

    @classmethod
    def of(cls, descriptor: StateDescriptor[Any]) -> "StateSchema":
        """The schema of a state with this descriptor."""
        return cls(
            descriptor.name,
            descriptor.kind,
            descriptor.value_type,
            descriptor.user_key_type,
            descriptor.ttl is not None,
            f"state {descriptor.name}",
        )

    @property
    def layout(self) -> ValueLayout:
        """The layout of its values."""
        return ValueLayout.of(self.kind, self.value_type, self.user_key_type, stamped=self.stamped)

    def to_json(self) -> dict[str, Any]:
        """For the record of a backend or snapshot."""
        return {
            "name": self.name,
            "kind": self.kind.value,
            "value_type": type_to_text(self.value_type),
            "user_key_type": self.user_key_type and type_to_text(self.user_key_type),
            "stamped": self.stamped,
            "family": self.family,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "StateSchema":
        """The inverse of `to_json`."""
        user_key = record["user_key_type"]
        return cls(
            record["name"],
            StateKind(record["kind"]),
            type_from_text(record["value_type"]),
            user_key and type_from_text(user_key),
            record["stamped"],
            record["family"],
        )

    def next_family(self) -> str:
        """A new column family, for rewritten rows of this state."""
        # The mark is not at the end: `state a'` is the family of a state named `a'`.
        prefix, _, _ = self.family.partition(" ")
        return f"{prefix}' {self.name}"


def type_to_text(kind: pa.DataType) -> str:
    """An Arrow type as text: its schema message in base 64."""
    return base64.b64encode(pa.schema([("type", kind)]).serialize().to_pybytes()).decode()


def type_from_text(text: str) -> pa.DataType:
    """The inverse of `type_to_text`."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).field(0).type


VERSIONS = {"format": 1, "codec": CODEC_VERSION, "rows": ROW_VERSION}


def check_versions(record: dict[str, Any], place: str) -> None:
    """Raise `StateArgumentError` if a record has an unknown format."""
    found = {name: record.get(name) for name in VERSIONS}
    if found != VERSIONS:
        raise StateArgumentError(
            f"{place}: format {found} is not supported (supported: {VERSIONS}); use the version of "
            "idlestate that wrote it"
        )
