"""What a failed test left open fails no other test.

A failed test keeps its objects until the next one runs: its traceback holds them. A process or a
file among them that is still open then warns from the garbage collector, in whichever test runs at
that moment, and warnings are errors. They are collected right after the failure instead.
"""

import gc
import sys
import warnings

import pytest

_failed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if not _failed:
        return
    _failed.clear()
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
