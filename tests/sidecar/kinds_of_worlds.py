"""The kinds of sidecar worlds that the short and the long form of a test run on."""

import pytest

from tests.sidecar.sidecar_world import KINDS

SHORT_AND_LONG_KINDS = [
    pytest.param(kind, marks=() if kind in ("rocksdb", "heap in 2 ranges") else pytest.mark.long)
    for kind in KINDS
]
"""In the short form, each store and each way to spread is there once."""
