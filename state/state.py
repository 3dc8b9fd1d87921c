"""The common part of all kinds of keyed state."""

from collections.abc import Sized
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from idlestate.state.descriptors import StateDescriptor
from idlestate.state.errors import StateArgumentError
from idlestate.state.input_conversion import listed
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_context import KeyContext
from idlestate.state.table import Table
from idlestate.state.ttl_layer import Ttl

T = TypeVar("T", bound=Table)

Many: TypeAlias = Any
"""Keys or values of a batch: an Arrow array, a numpy array, or a sequence. Arrow has no types."""


class State(Generic[T]):
    """State with a name: its content belongs to the current key and namespace."""

    def __init__(
        self,
        descriptor: StateDescriptor[Any],
        table: T,
        context: KeyContext,
        ttl: Ttl | None = None,
    ) -> None:
        """The state over its table; with a time to live, values have timestamps."""
        self.name = descriptor.name
        self.table = table
        self.namespace: Any = None
        self._context = context
        self._ttl = ttl
        self._type = descriptor.value_type
        self._normal = table.layout.value.normal

    def set_current_namespace(self, namespace: Any) -> None:
        """Use this namespace from now on; None is the one of state without namespaces.

        Raises:
            StateTypeError: it does not have the backend's `namespace_type`.
        """
        self.namespace = self.table.key_layout.normal_namespace(namespace)

    @property
    def _key(self) -> Any:
        return self._context.key

    def clear(self) -> None:
        """Remove all that the current key has in the current namespace."""
        self.table.clear(self._key, self.namespace)

    def remove_many(self, keys: Many) -> None:
        """`clear` for each of these keys."""
        self.table.clear_many(self.table.batch_of(keys), self.namespace)


def to_list(values: Many) -> list[Any]:
    """Values of a batch as Python objects."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        found: list[Any] = values.to_pylist()
    elif isinstance(values, np.ndarray):
        found = values.tolist()
    else:
        found = listed(values)
    return found


def check_pairs(keys: KeyBatch, values: Sized, noun: str = "values") -> None:
    """Raise `StateArgumentError` if their numbers differ."""
    if len(keys) != len(values):
        raise StateArgumentError(f"{len(keys)} keys, but {len(values)} {noun}: pass one per key")
