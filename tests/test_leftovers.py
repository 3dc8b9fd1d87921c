"""A failure stays with its test."""

import inspect

import pytest

from tests import leftovers

pytest_plugins = ("pytester",)

TESTS = """
import gc, subprocess
import pytest

@pytest.fixture
def running():
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield process
    process.wait(0)

def test_a_process_that_does_not_stop(running):
    assert running.poll() == 0

def test_of_something_else():
    pass

def test_in_which_objects_are_collected():
    gc.collect()
"""


@pytest.mark.parametrize(("conftest", "passed"), [("", 1), (inspect.getsource(leftovers), 2)])
def test_what_a_failed_test_left_open_fails_no_other(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, conftest: str, passed: int
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(conftest)
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-Werror")
    done.assert_outcomes(passed=passed, failed=3 - passed, errors=1)
