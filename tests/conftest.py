import os
import sys
from pathlib import Path

import pyspark
import pytest
from hypothesis import HealthCheck, settings

from idlestate.pipeline.spark_version import spark_version

DATA_DIR = "IDLESTATE_DATA_DIR"
PROFILE = "IDLESTATE_HYPOTHESIS"

# Workers have to run the Python that runs the tests: Spark would take any python3 on PATH.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# A case's time depends on what else the machine does: no deadlines. CI tries the same cases on
# every run (the seed comes from each test's name) and prints how to repeat one that fails.
_SLOW_IS_FINE = [HealthCheck.too_slow]
settings.register_profile("dev", deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.load_profile(os.environ.get(PROFILE, "dev"))


def pytest_configure(config: pytest.Config) -> None:
    # Before 4.2 PySpark leaves the sockets that it collects rows over to the garbage collector.
    if spark_version() < (4, 2):
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_report_header() -> list[str]:
    profile = os.environ.get(PROFILE, "dev")
    seeds = "cases fixed by each test's name" if profile == "ci" else "new cases on every run"
    return [
        f"idlestate: real data: {os.environ.get(DATA_DIR) or 'none (' + DATA_DIR + ' is not set)'}",
        f"idlestate: PySpark {pyspark.__version__}",
        f"idlestate: hypothesis profile {profile}: {seeds}",
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Suites of minutes go first, so that none of them is left to one process at the end."""
    items.sort(key=lambda item: "crash" not in item.path.parts)


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
