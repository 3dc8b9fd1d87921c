"""Reading parts of a file: what is about to be read is asked for first.

A run's columns lie in the memory of a file that may not be there yet, or that nobody has checked.
So whatever reads rows of a segment is a generator: it yields the `Touch`es that it is about to
make, and reads when it is resumed. `together` drives the generators of all segments in step and
asks the file for what all of them want in one go, so that a file far away is asked few times.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field

Ints = npt.NDArray[np.int64]
_T = TypeVar("_T")


class Touch(NamedTuple):
    """Rows of a column that are about to be read: spans begins..stops."""

    column: Field
    begins: Ints
    stops: Ints

    @classmethod
    def rows(cls, columns: Iterable[Field], rows: Ints) -> "list[Touch]":
        """These rows of each column."""
        return [cls(column, rows, rows + 1) for column in columns]

    @classmethod
    def span(cls, column: Field, begin: int, stop: int) -> "Touch":
        """The rows begin..stop, any number of them."""
        return cls(column, np.array([begin]), np.array([stop]))


Reading: TypeAlias = Generator[list[Touch], None, _T]
"""Work that yields what it is about to read, and returns what it made of it."""


class Source(Protocol):
    """A file in memory, to be asked before it is read."""

    @property
    def data(self) -> pa.Buffer:
        """All of it."""

    @property
    def is_whole(self) -> bool:
        """Whether every byte may be read without asking."""

    def need(self, begins: Ints, stops: Ints) -> None:
        """Make these spans of bytes readable, or raise what is wrong with them."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A file that is in memory and known to be good."""

    data: pa.Buffer
    is_whole: bool = True

    def need(self, begins: Ints, stops: Ints) -> None:
        """All of it is there."""


IN_MEMORY = Whole(pa.py_buffer(b""))
"""For columns that come from no file."""


def together(source: Source, readings: Sequence[Reading[_T]]) -> list[_T]:
    """Drive readings of one file step by step, and give back what each returns."""
    results: dict[int, _T] = {}
    pending = list(enumerate(readings))
    while pending:
        touches: list[Touch] = []
        still = []
        for at, reading in pending:
            try:
                touches += next(reading)
                still.append((at, reading))
            except StopIteration as done:
                results[at] = done.value
        _ask(source, touches)
        pending = still
    return [results[at] for at in range(len(readings))]


def _ask(source: Source, touches: Sequence[Touch]) -> None:
    if source.is_whole:
        return
    _need(source, [span for touch in touches for span in _spans(touch)])
    # Where texts stand is known only now.
    _need(source, [_text_span(touch) for touch in touches if _is_text(touch.column)])


class _Bytes(NamedTuple):
    """Spans of memory that lie in one buffer."""

    address: int
    begins: Ints
    stops: Ints


def _need(source: Source, spans: Sequence[_Bytes]) -> None:
    base, size = source.data.address, source.data.size
    # A column that repeats one value, or was made from others, is not of the file.
    mine = [span for span in spans if base <= span.address < base + size and len(span.begins)]
    if mine:
        source.need(
            np.concatenate([span.begins + (span.address - base) for span in mine]),
            np.concatenate([span.stops + (span.address - base) for span in mine]),
        )


def _spans(touch: Touch) -> list[_Bytes]:
    column, begins, stops = touch
    if isinstance(column, np.ndarray):
        # A numpy type has no stubs for this; `ctypes.data` is ten times as slow.
        interface: Any = column.__array_interface__
        width = column.itemsize
        return [_Bytes(interface["data"][0], begins * width, stops * width)]
    valid, *rest = column.buffers()
    begins, stops = begins + column.offset, stops + column.offset
    found = [_bits(valid, begins, stops)] if valid is not None else []
    kind = column.type
    if _is_text(column):
        found.append(_Bytes(rest[0].address, begins * 4, stops * 4 + 4))
    elif pa.types.is_boolean(kind):
        found.append(_bits(rest[0], begins, stops))
    elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        width = kind.bit_width // 8
        found.append(_Bytes(rest[0].address, begins * width, stops * width))
    else:
        whole = [buffer for buffer in rest if buffer is not None]
        found += [_Bytes(b.address, np.array([0]), np.array([b.size])) for b in whole]
    return found


def _bits(buffer: pa.Buffer, begins: Ints, stops: Ints) -> _Bytes:
    return _Bytes(buffer.address, begins >> 3, (stops + 7) >> 3)


def _is_text(column: Field) -> bool:
    if isinstance(column, np.ndarray):
        return False
    return bool(pa.types.is_string(column.type) or pa.types.is_binary(column.type))


def _text_span(touch: Touch) -> _Bytes:
    column: Any = touch.column
    _, offsets, data = column.buffers()
    if data is None:
        return _Bytes(0, touch.begins, touch.stops)
    places = np.frombuffer(offsets, dtype=np.int32)
    begins, stops = places[touch.begins + column.offset], places[touch.stops + column.offset]
    return _Bytes(data.address, begins.astype(np.int64), stops.astype(np.int64))
