"""The Spark home of the tests does what the installed one does."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.quick_jvm import CLASSES, JAVA_OPTIONS, WITHOUT_CLASSES, quick_jvm
from tests.quick_python import WORKERS, quick_python
from tests.quick_spark import UNUSED_JARS, java_compiler, quick_home

COMPILED = pytest.mark.skipif(java_compiler() is None, reason="this Java has no compiler")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_it_is_the_installed_spark_and_made_once(tmp_path: Path) -> None:
    home = quick_home(tmp_path)
    assert quick_home(tmp_path) == home
    assert list(tmp_path.iterdir()) == [home]
    installed = Path(pyspark.__file__).parent
    assert {"quick-files.jar"} >= names(home / "jars") - names(installed / "jars")
    left_out = names(installed / "jars") - names(home / "jars")
    assert all(any(name.startswith(unused) for name in left_out) for unused in UNUSED_JARS)
    assert all(name.startswith(UNUSED_JARS) for name in left_out)
    assert not (home / "python").exists()


@COMPILED
def test_files_and_folders_get_their_permissions_without_a_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    hadoop, settings = spark._jvm.org.apache.hadoop, spark._jsc.hadoopConfiguration()
    files = hadoop.fs.FileSystem.getLocal(settings)
    path = hadoop.fs.Path(str(tmp_path / "folder" / "file"))
    files.create(path).close()
    assert files.getClass().getName() == "QuickFiles"
    for mode in (0o640, 0o751, 0o604):
        files.setPermission(path, hadoop.fs.permission.FsPermission(f"{mode:o}"))
        assert (tmp_path / "folder" / "file").stat().st_mode & 0o777 == mode
    context = hadoop.fs.FileContext.getFileContext(settings)
    assert context.getDefaultFileSystem().getClass().getName() == "QuickFiles$Context"


def test_python_processes_import_the_compiled_pyspark(spark: SparkSession) -> None:
    where = "import pyspark; print(pyspark.__file__)"
    path = spark._jvm.org.apache.spark.api.python.PythonUtils.sparkPythonPath()
    command = [sys.executable, "-c", where]
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert Path(done.stdout.decode().strip()) == Path(pyspark.__file__)


@pytest.mark.spark
def test_saved_classes_are_used_where_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert quick_jvm() == WITHOUT_CLASSES
    (tmp_path / CLASSES).touch()
    assert f" -XX:SharedArchiveFile={tmp_path / CLASSES} " in quick_jvm()
    # One that does not fit is passed over without a word.
    command = ["java", *quick_jvm().split(), "-version"]
    env = {name: value for name, value in os.environ.items() if name != JAVA_OPTIONS}
    java = Path(os.environ.get("JAVA_HOME", "")) / "bin"
    env["PATH"] = os.pathsep.join([str(java), env["PATH"]])
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "archive" not in done.stderr


def test_a_quick_python_runs_programs_as_ever(tmp_path: Path) -> None:
    with quick_python(tmp_path) as python:
        done = subprocess.run(
            [python, "-c", "import sys; print(sys.executable)"],
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == f"{sys.executable}\n"


@pytest.mark.parametrize("worker", WORKERS)
def test_a_forked_worker_that_fails_says_why(tmp_path: Path, worker: str) -> None:
    with quick_python(tmp_path) as python:
        done = subprocess.run(
            [python, "-m", worker],
            env={"PYTHON_WORKER_FACTORY_PORT": "no number"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "invalid literal for int() with base 10: 'no number'" in done.stderr
