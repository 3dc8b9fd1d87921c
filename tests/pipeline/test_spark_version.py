"""The versions of Spark: which are taken, what older ones lack, what is said of moved parts."""

import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyspark
import pytest
from packaging.requirements import Requirement
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from idlestate import configure
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import partitions_at, read_batch_times
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.repartition import repartition
from idlestate.pipeline.checkpoint.spark_metadata import put_paths_right
from idlestate.pipeline.spark.session_settings import check_session
from idlestate.pipeline.spark.spark_version import NEWEST, OLDEST, check_version, private_part

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spark-versions.md").read_text()
SUPPORTED = ["4.1", "4.2", "4.3"]


@pytest.mark.parametrize("version", [f"{each}.0" for each in SUPPORTED])
def test_a_supported_version_is_taken(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    check_version()


@pytest.mark.parametrize("version", ["3.5.9", "4.0.5", "4.4.0", "5.0.0.dev1"])
def test_another_version_is_refused_in_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    for check in (configure, check_session):
        with pytest.raises(RefusedError) as raised:
            check(spark)
        assert str(raised.value) == (
            f"PySpark {version} is not supported: install pyspark>=4.1,<4.4, or a version of "
            "idlestate that supports it"
        )


def test_what_is_supported_is_what_is_installed_locked_and_listed() -> None:
    assert [f"4.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)] == SUPPORTED
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (asked,) = [
        each for each in map(Requirement, project["dependencies"]) if each.name == "pyspark"
    ]
    assert [f"4.{minor}" for minor in range(10) if f"4.{minor}.0" in asked.specifier] == SUPPORTED
    assert not {"3.5.9", "5.0.0"} & set(asked.specifier.filter(["3.5.9", "5.0.0"]))
    locks = {path.name for path in ROOT.glob("requirements-spark-*.lock")}
    assert locks == {f"requirements-spark-{version}.lock" for version in SUPPORTED}
    assert sorted(re.findall(r"^\| (\d\.\d) \|", PAGE, re.MULTILINE)) == SUPPORTED


def test_a_repartition_before_4_2_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    with pytest.raises(RefusedError) as raised:
        repartition(spark, str(tmp_path), 4)
    assert re.fullmatch(
        r"a repartition needs Spark 4\.2 or newer, .* 4\.1\.4: .*", str(raised.value)
    )


def test_a_part_that_has_moved_is_told_with_the_versions_it_was_written_for(
    spark: SparkSession,
) -> None:
    jvm = spark.sparkContext._jvm
    moved: list[Callable[[], object]] = [
        jvm.org.apache.spark.sql.Nowhere,  # type: ignore[union-attr]
        spark._jsparkSession.nothing,
        partial(getattr, spark, "_nothing"),
    ]
    for part in moved:
        with (
            pytest.raises(RefusedError, match=r"cannot find it: .* for Spark 4\.1 to 4\.3 "),
            private_part("it"),
        ):
            part()


@pytest.mark.parametrize("text", ["v9\n{}", 'v1\n{"conf": {}}'])
def test_logs_of_another_format_are_told_with_their_file(tmp_path: Path, text: str) -> None:
    checkpoint = Folder(str(tmp_path))
    checkpoint.replace("offsets/3", text.encode())
    for read in (read_batch_times, partitions_at):
        with pytest.raises(RefusedError, match=r"^cannot find .* in offsets/3 of .* 4\.1 to 4\.3 "):
            read(checkpoint, 3)


@pytest.mark.parametrize("text", ["", "v9\n{}", "v1\nnot JSON", "v1\n[]", 'v1\n{"conf": {}}'])
def test_metadata_of_another_format_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    checkpoint = Folder(str(tmp_path))
    checkpoint.replace("state/0/_metadata/v2/3", text.encode())
    with pytest.raises(RefusedError, match=r"^cannot find .* in state/0/_metadata/v2/3 of "):
        put_paths_right(checkpoint)


def test_what_is_private_to_spark_is_in_the_files_that_the_docs_list() -> None:
    reaches_in = re.compile(
        r"\._(jvm|jsc|jdf|jsparkSession|streaming\w+)\b|org\.apache\.|_gateway\("
    )
    rooms = [*(ROOT / "pipeline").glob("*.py"), *(ROOT / "service").rglob("*.py")]
    found = {
        path.relative_to(ROOT).as_posix() for path in rooms if reaches_in.search(path.read_text())
    }
    listed = set(re.findall(r"^\|.*\| `(\w+/\w+\.py)` \|$", PAGE, re.MULTILINE))
    assert found <= listed
    assert all((ROOT / name).is_file() for name in listed), listed


def test_other_errors_of_spark_are_left_alone() -> None:
    with pytest.raises(Py4JError, match="out of memory"), private_part("it"):
        raise Py4JError("out of memory")
    with pytest.raises(RefusedError, match="is damaged"), private_part("it"):
        raise RefusedError("state is damaged")
