import atexit
import gc
import os
import sys
from functools import cache
from pathlib import Path

import pyspark
import pytest
from hypothesis import HealthCheck, Phase, settings

from idlestate.pipeline.spark.spark_version import spark_version
from tests import leftovers, lengths
from tests.quick_jvm import JAVA_OPTIONS, WITHOUT_CLASSES, quick_jvm
from tests.quick_spark import quick_home

DATA_DIR = "IDLESTATE_DATA_DIR"
PROFILE = "IDLESTATE_HYPOTHESIS"

# Workers have to run the Python that runs the tests: Spark would take any python3 on PATH.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
if "SPARK_HOME" not in os.environ:
    os.environ["SPARK_HOME"] = str(quick_home())
os.environ.setdefault(JAVA_OPTIONS, quick_jvm())

# A case's time depends on what else the machine does: no deadlines. CI tries the same cases on
# every run (the seed comes from each test's name) and prints how to repeat one that fails. With
# mutants it is enough that a case fails: nobody reads a smaller one.
settings.register_profile(
    "dev",
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("mutants", settings.get_profile("ci"), phases=[Phase.generate])
settings.load_profile(os.environ.get(PROFILE, "dev"))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(leftovers)
    config.pluginmanager.register(lengths)
    # Before 4.2 PySpark leaves the sockets that it collects rows over to the garbage collector.
    if spark_version() < (4, 2):
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_report_header() -> list[str]:
    profile = os.environ.get(PROFILE, "dev")
    seeds = (
        "cases fixed by each test's name" if settings().derandomize else "new cases on every run"
    )
    return [
        f"idlestate: real data: {os.environ.get(DATA_DIR) or 'none (' + DATA_DIR + ' is not set)'}",
        f"idlestate: PySpark {pyspark.__version__}",
        f"idlestate: hypothesis profile {profile}: {seeds}",
    ]


LONGEST = {"crash", "soak", "cluster", "benchmarks", "test_runs_in_s3.py"}
"""Folders and files of tests that take minutes each."""
FIRST: set[Path] = set()
"""The files that go first."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes go first, so that none of them is left to one process at the end."""
    with_spark = {item.path for item in items if item.get_closest_marker("spark")}
    long = {item.path for item in items if LONGEST & {*item.path.parts, item.path.name}}
    items.sort(key=lambda item: (item.path not in long, item.path not in with_spark))
    FIRST.update(with_spark | long)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the garbage collector leave out what lives to the end: all tests and all libraries."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)


@cache
def give_way() -> None:
    """Let processes of other tests go first from now on."""
    os.nice(5)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let JVMs use the archive of classes once it is there, and the process with Spark go first.

    Of parallel test processes that one has the tests that take longest.
    """
    if os.environ[JAVA_OPTIONS] == WITHOUT_CLASSES:
        os.environ[JAVA_OPTIONS] = quick_jvm()
    if "PYTEST_XDIST_WORKER" in os.environ and item.path not in FIRST:
        give_way()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets; tests that ask for it are skipped where there is none."""
    named = os.environ.get(DATA_DIR)
    if not named:
        pytest.skip(f"{DATA_DIR} is not set: no real data sets on this machine")
    folder = Path(named)
    if not folder.is_dir():
        pytest.fail(f"{DATA_DIR}={named} is no folder")
    return folder
