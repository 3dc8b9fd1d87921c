"""The kinds of sidecar worlds that the short and the long form of a test run on."""

from zlib import crc32

import pytest

from tests.sidecar.sidecar_world import KINDS

SHORT_KINDS = ("rocksdb", "heap in 2 ranges")
SHORT_AND_LONG_KINDS = [
    pytest.param(kind, marks=() if kind in SHORT_KINDS else pytest.mark.long) for kind in KINDS
]
"""In the short form, each store and each way to spread is there, for one half of the tests each."""


def leave_one(items: list[pytest.Item]) -> None:
    """Let each test that knows both short kinds have one of them in its short form.

    Which one goes by the test's name, so that it is the same on every run.
    """
    kinds: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        kind = params.get("world")
        if kind in SHORT_KINDS:
            name = item.nodeid.replace(kind, "")
            kinds.setdefault(name, {})[kind] = item
    for name, both in kinds.items():
        if len(both) == len(SHORT_KINDS):
            both[SHORT_KINDS[crc32(name.encode()) % 2]].add_marker(pytest.mark.long)
