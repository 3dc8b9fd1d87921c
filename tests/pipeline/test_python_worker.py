"""When Spark's workers are forked from our process, and when from another."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, current_thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from idlestate.pipeline.spark import python_worker
from idlestate.pipeline.spark.python_worker import load_once, use_same_python, use_unix_sockets
from tests.patience import PATIENCE_S


class Settings(dict[str, str]):
    """Those of a running SparkContext."""

    contains = dict.__contains__
    set = dict.__setitem__


UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


def session(
    settings: Settings,
    master: str,
    python: str = sys.executable,
    rows: Any = None,
    folder: str = "/tmp",
    home: str | None = None,
) -> SimpleNamespace:
    java = SimpleNamespace(sc=lambda: SimpleNamespace(conf=lambda: settings))
    system = SimpleNamespace(
        getProperty={"java.io.tmpdir": folder}.__getitem__, getenv={"SPARK_HOME": home}.__getitem__
    )
    machine = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
    context = SimpleNamespace(master=master, pythonExec=python, _jsc=java, _jvm=machine)
    return SimpleNamespace(sparkContext=context, range=rows)


OURS = {"spark.python.daemon.module": "idlestate.pipeline.worker_daemon"}


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[*, 4]"])
def test_workers_of_a_local_session_are_forked_with_libraries_loaded(master: str) -> None:
    settings = Settings()
    load_once(session(settings, master))  # type: ignore[arg-type]
    assert settings == OURS


def test_workers_of_a_local_session_use_freed_memory_again(spark: SparkSession) -> None:
    def faults(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)

        def count() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

        kept = [np.ones(1 << 17) for _ in range(8)]
        del kept
        before = count()
        for _ in range(20):
            kept = [np.ones(1 << 17) for _ in range(8)]
            del kept
        yield pa.RecordBatch.from_pydict({"faults": [count() - before]})

    rows = spark.range(1, numPartitions=1).mapInArrow(faults, "faults long").collect()
    # 8 MB twenty times over are some 40,000 pages.
    assert [row.faults < 1000 for row in rows] == [True]


def test_the_process_that_workers_are_forked_from_starts_at_once_and_once() -> None:
    settings, threads, started = Settings(), [], Barrier(2)

    def rows(count: int) -> None:
        threads.append(current_thread())
        started.wait(timeout=PATIENCE_S)
        raise RuntimeError(f"the session was stopped: {count}")

    for _ in range(2):
        load_once(session(settings, "local[2]", rows=rows))  # type: ignore[arg-type]
    started.wait(timeout=PATIENCE_S)
    for thread in threads:
        thread.join(timeout=PATIENCE_S)
    assert [thread.name for thread in threads] == ["idlestate-python-workers"]


@pytest.mark.parametrize(
    ("master", "chosen", "python"),
    [
        ("local[2]", None, sys.executable),
        ("local[2]", "python3", "python3"),
        ("spark://host:7077", None, "python3"),
    ],
)
def test_a_local_session_runs_the_python_of_its_driver(
    monkeypatch: pytest.MonkeyPatch, master: str, chosen: str | None, python: str
) -> None:
    """Without an active environment, the `python3` of the PATH has no idlestate."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if chosen:
        monkeypatch.setenv("PYSPARK_PYTHON", chosen)
    found: Any = session(Settings(), master, "python3")
    use_same_python(found)
    assert found.sparkContext.pythonExec == python


INSTALLED = Path(pyspark.__file__).parent


def test_workers_of_a_local_session_import_the_installed_pyspark_not_its_zip_file() -> None:
    """Each would compile what it imports from the zip file."""
    settings = Settings()
    found: Any = session(settings, "local[2]", home=str(INSTALLED))
    use_same_python(found)
    load_once(found)
    assert settings == OURS
    of_spark = f"{INSTALLED}/python/lib/pyspark.zip:{INSTALLED}/python/lib/py4j-1.2.3-src.zip"
    done = subprocess.run(
        [found.sparkContext.pythonExec, "-c", "import sys; print(sys.prefix, *sys.path, sep=';')"],
        env={"PYTHONPATH": f"{of_spark}:/of/spark.jar:/of user"},
        capture_output=True,
        text=True,
        check=True,
    )
    prefix, *path = done.stdout.strip().split(";")
    assert prefix == sys.prefix
    assert path[:3] == ["", "/of/spark.jar", "/of user"]


@pytest.mark.parametrize(
    ("master", "python", "home"),
    [
        ("spark://host:7077", sys.executable, INSTALLED),
        ("local[2]", "/another/python", INSTALLED),
        ("local[2]", sys.executable, INSTALLED / "python"),
        ("local[2]", sys.executable, None),
    ],
)
def test_other_pythons_and_other_sparks_keep_their_path(
    master: str, python: str, home: Path | None
) -> None:
    found: Any = session(Settings(), master, python, home=home and str(home))
    use_same_python(found)
    assert found.sparkContext.pythonExec == python


@pytest.mark.parametrize(
    ("python", "mode", "is_taken"),
    [
        (Path(sys.executable), 0o755, True),
        (Path("/moved/bin/python"), 0o755, False),
        (Path(sys.executable), 0o644, False),
        (None, 0, False),
    ],
)
def test_a_program_that_does_not_run_this_python_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: Path | None, mode: int, is_taken: bool
) -> None:
    program = tmp_path / "idlestate-python"
    if python:
        program.write_text(f"#!{python}\n")
        program.chmod(mode)
    file = SimpleNamespace(name=program.name, locate=lambda: program)
    monkeypatch.setattr(python_worker, "distribution", lambda name: SimpleNamespace(files=[file]))
    found: Any = session(Settings(), "local[2]", home=str(INSTALLED))
    use_same_python(found)
    assert found.sparkContext.pythonExec == (str(program) if is_taken else sys.executable)


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "yarn"])
def test_executors_of_a_cluster_keep_the_daemon_of_spark(master: str) -> None:
    settings = Settings()
    load_once(session(settings, master))  # type: ignore[arg-type]
    assert settings == {}


def test_a_daemon_that_the_user_chose_stays() -> None:
    settings = Settings({"spark.python.daemon.module": "my.daemon"})
    load_once(session(settings, "local[2]"))  # type: ignore[arg-type]
    assert settings == {"spark.python.daemon.module": "my.daemon"}


def test_workers_of_another_python_keep_the_daemon_of_spark() -> None:
    settings = Settings()
    load_once(session(settings, "local[2]", "/another/python"))  # type: ignore[arg-type]
    assert settings == {}


def test_an_idlestate_that_only_this_process_finds_is_not_asked_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_is_installed(name: str) -> None:
        raise python_worker.PackageNotFoundError(name)

    monkeypatch.setattr(python_worker, "distribution", none_is_installed)
    settings = Settings()
    load_once(session(settings, "local[2]"))  # type: ignore[arg-type]
    assert settings == {}


def test_workers_of_a_local_session_talk_over_unix_sockets() -> None:
    settings = Settings()
    use_unix_sockets(session(settings, "local[2]"))  # type: ignore[arg-type]
    assert settings == {UNIX_SOCKETS: "true"}


def test_a_cluster_keeps_its_sockets() -> None:
    settings = Settings()
    use_unix_sockets(session(settings, "spark://host:7077"))  # type: ignore[arg-type]
    assert settings == {}


def test_sockets_that_the_user_chose_stay() -> None:
    settings = Settings({UNIX_SOCKETS: "false"})
    use_unix_sockets(session(settings, "local[2]"))  # type: ignore[arg-type]
    assert settings == {UNIX_SOCKETS: "false"}


@pytest.mark.parametrize("chosen", [True, False])
def test_a_folder_whose_name_is_too_long_for_a_socket_is_not_used(chosen: bool) -> None:
    """Binding a socket in it would fail each task."""
    long = "/" + "d" * 60
    settings = Settings({"spark.python.unix.domain.socket.dir": long} if chosen else {})
    before = dict(settings)
    found = session(settings, "local[2]", folder="/tmp" if chosen else long)
    use_unix_sockets(found)  # type: ignore[arg-type]
    assert settings == before
