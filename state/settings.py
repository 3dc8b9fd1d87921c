"""The settings of a backend of any kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from idlestate.state.errors import KeyGroupError
from idlestate.state.key_groups import KeyGroupRange, check_parallelism
from idlestate.timers.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """The arguments of `open_backend`.

    Attributes:
        key_type: Arrow type of keys.
        namespace_type: Arrow type of namespaces.
        max_parallelism: the number of key groups.
        groups: the key groups of this backend.
        clock: the clock.
        restore: folders of snapshots to start with.
    """

    key_type: pa.DataType
    namespace_type: pa.DataType
    max_parallelism: int
    groups: KeyGroupRange
    clock: Clock
    restore: Sequence[Path]

    def __post_init__(self) -> None:
        check_parallelism(self.max_parallelism)
        if self.groups.last >= self.max_parallelism:
            raise KeyGroupError(
                f"key groups {self.groups.first} to {self.groups.last}: with max parallelism "
                f"{self.max_parallelism} the last is {self.max_parallelism - 1}"
            )
