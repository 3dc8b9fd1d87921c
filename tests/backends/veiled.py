"""A file whose bytes are wrong until they are asked for: without asking one reads nonsense."""

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_source import Ints

NONSENSE = 0xA5


class Veiled:
    """A source that shows the spans of bytes that were asked for, to the byte, and no others."""

    def __init__(self, data: pa.Buffer) -> None:
        self._true = np.frombuffer(data, dtype=np.uint8)
        self._shown = np.full(data.size, NONSENSE, dtype=np.uint8)
        self._is_shown = np.zeros(data.size, dtype=bool)
        self.data = pa.py_buffer(self._shown)

    def need(self, begins: Ints, stops: Ints) -> None:
        for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True):
            self._shown[begin:stop] = self._true[begin:stop]
            self._is_shown[begin:stop] = True

    @property
    def bytes_shown(self) -> int:
        return int(self._is_shown.sum())
