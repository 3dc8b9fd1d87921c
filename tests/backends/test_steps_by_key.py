"""Which records of a key are one step."""

import numpy as np
import pyarrow as pa

from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec

KIND = aggregation({"n": "count"}, {"k": pa.string()})
SPEC = TableSpec(keys=(("k", pa.string()),), kind=KIND)


def steps_of(times_ms: list[int], reads: list[bool]) -> Steps:
    """Records of one key in the sequence given, with equal ones added up."""
    steps = Steps.from_records(
        SPEC,
        [pa.array(["a"] * len(times_ms))],
        np.array(times_ms),
        {},
        reads=np.array(reads),
        sort=False,
    )
    return steps.collapsed(KIND)


def test_records_of_one_time_and_kind_are_one_step() -> None:
    steps = steps_of([5, 5, 5, 6], [False, False, True, True])
    assert steps.t_ms.tolist() == [5, 5, 6]
    assert steps.is_read is not None
    assert steps.is_read.tolist() == [False, True, True]
    assert KIND.result(steps.carried)[0].to_pylist() == [2, 0, 0]


def test_few_rows_of_a_step_are_left_as_they_are() -> None:
    steps = Steps.from_records(SPEC, [pa.array(["a"] * 5)], np.array([5, 5, 6, 7, 8]), {})
    assert steps.collapsed(KIND, least=0.21) is steps
    assert steps.collapsed(KIND, least=0.2).t_ms.tolist() == [5, 6, 7, 8]


def test_a_write_between_two_reads_of_its_time_stays_a_write() -> None:
    steps = steps_of([5, 5, 5], [True, False, True])
    assert steps.is_read is not None
    assert steps.is_read.tolist() == [True, False, True]
    assert KIND.result(steps.carried)[0].to_pylist() == [0, 1, 0]
