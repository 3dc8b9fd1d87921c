"""Operators with two inputs batch by batch in the calling process."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from idlestate.backends.shards.input_watermarks import InputRecord, joint_watermark_ms
from idlestate.backends.shards.row_counts import RowsByInput
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.errors import RefusedError
from idlestate.pipeline.retain_harness import OperatorHarness

Pairs = Sequence[tuple[str, Mapping[str, Any]]]
"""Rows of two inputs, each with the name of its input."""


class TwoInputHarness(OperatorHarness[Pairs]):
    """One operator with two inputs, fed batch by batch."""

    def _tables(self, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[pa.Table]:
        given = {str(each.spec.input_name): list[Mapping[str, Any]]() for each in self._inputs}
        for name, row in rows:
            if name not in given:
                known = " and ".join(given)
                raise RefusedError(f"{name!r} is not an input; the inputs are {known}")
            given[name].append(row)
        return [each.table(some) for each, some in zip(self._inputs, given.values(), strict=True)]

    def _reached_ms(self, counts: RowsByInput, before: ShardRecord) -> int:
        terms = self._spec.terms
        if self._spec.may_be_idle:
            found = [
                joint_watermark_ms(name, rows.highest_ms, before.inputs, terms)
                for name, rows in counts.items()
                if rows.input
            ]
            return max((each for each in found if each is not None), default=0)
        inputs = self._record.inputs
        reached_ms = [inputs.get(name, InputRecord()).reached_ms(of) for name, of in terms.items()]
        known = [each for each in reached_ms if each is not None]
        return min(known) if len(known) == len(reached_ms) else 0
