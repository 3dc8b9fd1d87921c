"""Tests that run a whole benchmark in its quick form, to see that it works: `make bench-test`."""

import os

import pytest

quick_form = pytest.mark.skipif(
    "IDLESTATE_BENCH_SMOKE" not in os.environ,
    reason="a whole benchmark, for a minute: make bench-test",
)
