"""What a start says about cores that would stay idle."""

import logging
import re

import pyarrow as pa
import pytest

from idlestate.backends.aggregates import bind
from idlestate.backends.steps import TableSpec
from idlestate.pipeline.layout import Layout
from idlestate.pipeline.session import warn_of_idle_cores

SPEC = TableSpec((("user", pa.string()),), bind({"n": "count"}, {}))


@pytest.mark.parametrize(
    ("cores", "partitions", "words"),
    [
        pytest.param(4, 4, None, id="as-many"),
        pytest.param(2, 4, None, id="fewer"),
        pytest.param(6, 4, "4 of 6 cores busy at most: .* --partitions 8 ", id="repartition"),
        pytest.param(99, 4, "--partitions 16 ", id="as-far-as-it-goes"),
        pytest.param(20, 16, "its 16 shards are fixed; a new checkpoint", id="more-than-shards"),
    ],
)
def test_cores_that_would_stay_idle_are_told_of(
    caplog: pytest.LogCaptureFixture, cores: int, partitions: int, words: str | None
) -> None:
    layout = Layout.of(SPEC, "event", partitions, shards=16, retain_batches=10)
    with caplog.at_level(logging.WARNING, "idlestate"):
        warn_of_idle_cores("clicks", layout, cores)
    if words is None:
        assert not caplog.messages
    else:
        (said,) = caplog.messages
        assert re.search(words, said)
