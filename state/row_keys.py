"""The part of a row key that all kinds of state share: key group, key, namespace.

`byte_layout.py` describes their layout.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.byte_arrays import fixed_width
from idlestate.state.codec import Codec, read_varint, varint
from idlestate.state.errors import StateTypeError
from idlestate.state.java_hashes import java_hash, java_hashes
from idlestate.state.key_batch import KeyBatch
from idlestate.state.key_codec import key_codec_for
from idlestate.state.key_groups import key_group, key_groups

GROUP = struct.Struct(">H")


class RowKey(NamedTuple):
    """The parts of a row key; `rest` is the part of the kind of state."""

    group: int
    key: Any
    namespace: Any
    rest: bytes


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """Row keys of one backend.

    Attributes:
        key: codec of keys.
        namespace: codec of namespaces.
        group_of: the key group of a key.
        max_parallelism: the number of key groups.
    """

    key: Codec
    namespace: Codec
    group_of: Callable[[Any], int]
    max_parallelism: int

    @classmethod
    def of(
        cls, key_type: pa.DataType, namespace_type: pa.DataType, max_parallelism: int
    ) -> "KeyLayout":
        """The layout for keys and namespaces of these types."""
        hash_of = java_hash(key_type)
        return cls(
            key_codec_for(key_type),
            key_codec_for(namespace_type),
            lambda key: key_group(hash_of(key), max_parallelism),
            max_parallelism,
        )

    def normal_key(self, key: Any) -> Any:
        """A key as decoding would return it.

        Raises:
            NullValueError: it is None.
            StateTypeError: it has another type.
        """
        try:
            return self.key.normal(key)
        except StateTypeError as error:
            raise StateTypeError(
                f"{key!r} is not a valid key: keys are {self.key.kind}; pass a key of that type, "
                "or open the backend with another key_type"
            ) from error

    def normal_namespace(self, namespace: Any) -> Any:
        """The same for a namespace; None is the one of state without namespaces."""
        if namespace is None:
            return None
        try:
            return self.namespace.normal(namespace)
        except StateTypeError as error:
            raise StateTypeError(
                f"{namespace!r} is not a valid namespace: namespaces are {self.namespace.kind}; "
                "pass one of that type, or open the backend with another namespace_type"
            ) from error

    def prefix(self, key: Any, namespace: Any, group: int | None = None) -> bytes:
        """The prefix of all rows of a key and namespace."""
        data = self.key.encode(key)
        head = GROUP.pack(self.group_of(key) if group is None else group)
        tail = b"\0" if namespace is None else self._of_namespace(namespace)
        return b"".join((head, varint(len(data)), data, tail))

    def _of_namespace(self, namespace: Any) -> bytes:
        name = self.namespace.encode(namespace)
        return varint(len(name) + 1) + name

    def prefixes(
        self, keys: KeyBatch, namespace: Any, times: npt.NDArray[np.uint64] | None = None
    ) -> pa.BinaryArray:
        """`prefix` of each key; times, if given, follow the key groups."""
        groups = key_groups(java_hashes(keys), self.max_parallelism)
        sizes = pc.binary_length(keys.encoded).to_numpy(zero_copy_only=False)
        when = [] if times is None else [("time", ">u8")]
        heads = np.empty(len(keys), dtype=[("group", ">u2"), *when, ("size", "u1")])
        heads["group"] = groups
        if times is not None:
            heads["time"] = times
        tail = b"\0" if namespace is None else self._of_namespace(namespace)
        if sizes.max(initial=0) > 127:
            each = zip(fixed_width(heads).to_pylist(), keys.encoded.to_pylist(), strict=True)
            rows = [b"".join((head[:-1], varint(len(key)), key, tail)) for head, key in each]
            return pa.array(rows, pa.binary())
        heads["size"] = sizes
        return pc.binary_join_element_wise(fixed_width(heads), keys.encoded, pa.scalar(tail), b"")

    def split(self, row: bytes) -> RowKey:
        """Split a row key."""
        (group,) = GROUP.unpack_from(row)
        length, at = read_varint(row, 2)
        key = self.key.decode(row[at : at + length])
        at += length
        length, at = read_varint(row, at)
        if not length:
            return RowKey(group, key, None, row[at:])
        end = at + length - 1
        return RowKey(group, key, self.namespace.decode(row[at:end]), row[end:])

    def end_of_prefix(self, row: bytes) -> int:
        """The length of the part with key and namespace."""
        length, at = read_varint(row, 2)
        length, at = read_varint(row, at + length)
        return at + max(length - 1, 0)
