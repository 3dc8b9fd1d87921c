"""The packing step, without Spark around it."""

from decimal import Decimal

import pyarrow as pa
import pytest

from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.pipeline.operator_spec import HASH, TIME, OperatorSpec
from idlestate.pipeline.pack import packer
from idlestate.pipeline.task_batch import TaskBatch
from idlestate.retention.policy import Policy
from idlestate.retention.policy_version import PolicyVersion

WIDE = pa.decimal128(38, 0)
KINDS = {"k": pa.string(), "v": WIDE}
SPEC = OperatorSpec(
    uid="clicks",
    table=TableSpec((("k", pa.string()),), aggregation({"total": "sum(v)"}, KINDS)),
    policy=Policy(),
    inputs=tuple(KINDS.items()),
    read_when=None,
    delay_ms=0,
    max_ahead_ms=0,
    rejects=False,
    has_time=True,
    shards=None,
    runs=None,
    token="token",
)
BATCH = TaskBatch(BatchTimes(0, -1, 0), SPEC.table, [0], PolicyVersion(1, 0, SPEC.policy), 10, None)


def test_what_does_not_fit_is_told_to_the_person() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            HASH: pa.array([1] * 3, pa.int64()),
            TIME: pa.array([0] * 3, pa.int64()),
            "k": ["a"] * 3,
            "v": pa.array([Decimal(9 * 10**37)] * 3, WIDE),
        }
    )
    with pytest.raises(RuntimeError, match=r"idlestate: sum\(v\) does not fit .* \[end\]"):
        list(packer(SPEC, lambda: BATCH)(iter([rows])))
