"""The keys after a batch, in columns, regardless of the form of the function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.fields import Field, join
from idlestate.backends.shards.state_entries import ChangedEntries
from idlestate.functions.batched_columns import Flags, Ints
from idlestate.retention.lives import Lives


@dataclass(frozen=True, slots=True)
class KeysAfter:
    """Keys by their numbers in the batch.

    Attributes:
        kept: keys with an open life, with their `lives` and columns.
        born, born_ms: the key and time of each life that began.
        before_ms, is_known: when the key's previous life expired, `NEVER_MS` if it did not expire;
            unknown if this batch has seen no other life of the key.
        reasons: why lives expired.
        gone, gone_ms, gone_why: keys whose last life in this batch expired.
        output: the function's rows.
        failed: what is shown of calls that failed.
        entries: the changes to write for entries of large lists and maps, by table.
    """

    kept: Ints
    lives: Lives
    payload: list[Field]
    born: Ints
    born_ms: Ints
    before_ms: Ints
    is_known: Flags
    reasons: Ints
    gone: Ints
    gone_ms: Ints
    gone_why: Ints
    output: pa.Table
    failed: list[dict[str, Any]]
    entries: Mapping[str, ChangedEntries] = field(default_factory=dict)

    def of_keys(self, keys: Ints) -> "KeysAfter":
        """The same values with key i renumbered to `keys[i]`."""
        return replace(self, kept=keys[self.kept], born=keys[self.born], gone=keys[self.gone])

    @staticmethod
    def joined(parts: Sequence["KeysAfter"]) -> "KeysAfter":
        """The values of several objects with different keys, joined."""
        if len(parts) == 1:
            return parts[0]

        def column(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts])

        return KeysAfter(
            kept=column("kept"),
            lives=Lives.joined([part.lives for part in parts]),
            payload=[join(each) for each in zip(*(part.payload for part in parts), strict=True)],
            born=column("born"),
            born_ms=column("born_ms"),
            before_ms=column("before_ms"),
            is_known=column("is_known"),
            reasons=column("reasons"),
            gone=column("gone"),
            gone_ms=column("gone_ms"),
            gone_why=column("gone_why"),
            output=pa.concat_tables([part.output for part in parts]),
            failed=[each for part in parts for each in part.failed],
            entries={name: each for part in parts for name, each in part.entries.items()},
        )
