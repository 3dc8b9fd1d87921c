"""Sources of `idlestate run`: folders, files and patterns of parquet, JSON lines or CSV."""

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StringType, StructField, StructType

from idlestate.config.pipeline_settings import SourceSection
from idlestate.config.sql.quoting import quoted
from idlestate.config.urls import is_url
from idlestate.errors import RefusedError
from idlestate.pipeline.spark.hadoop import Hadoop
from idlestate.pipeline.spark.task_errors import spark_says

CORRUPT = "_corrupt_record"
"""The column with the text of a row that Spark could not parse."""

_GLOBS = "*?[]{}"
_ANY_AGE = f"{2**63 - 1}ms"
"""By default, Spark silently skips a file a week older than the newest one it has seen."""
_FORMATS = {
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
}


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of events, and the column that marks malformed rows, if the format has one."""

    frame: DataFrame
    malformed: str | None


def elsewhere(source: SourceSection, path: str) -> SourceSection:
    """The same source with another path; a known suffix determines the format."""
    endings = [suffix for suffix in PurePosixPath(path).suffixes if suffix != ".gz"]
    kind = _FORMATS.get(endings[-1].lower()) if endings else None
    changed = source.model_copy(update={"path": path, "format": kind or source.format})
    return changed if changed.format == source.format else changed.model_copy(update={"ddl": None})


def check_there(source: SourceSection) -> None:
    """Refuse a local path without files to read; patterns and other file systems are left to Spark.

    Raises:
        RefusedError: with the path.
    """
    path = source.path
    if is_url(path) or any(glob in path for glob in _GLOBS):
        return
    place = Path(path)
    if not place.exists():
        raise RefusedError(
            f"source {path} does not exist (relative paths start at {Path.cwd()}); set source.path "
            "in the configuration, or --source, to an existing folder, file or pattern"
        )
    if place.is_file() and place.name.startswith(("_", ".")):
        raise RefusedError(
            f"source {path} would not be read: Spark skips files whose names start with _ or .; "
            "rename it"
        )
    if place.is_dir() and (beside := _file_beside_partitions(place)):
        raise RefusedError(
            f"source {path} has partition folders (name=value), and Spark would not read the file "
            f"{beside} beside them; move it into one of them"
        )


def _file_beside_partitions(folder: Path) -> str | None:
    """The name of a file that Spark would note as read, but not read."""
    with os.scandir(folder) as entries:
        shown = [each for each in entries if not each.name.startswith(("_", "."))]
    if not any("=" in each.name and each.is_dir() for each in shown):
        return None
    return min((each.name for each in shown if each.is_file()), default=None)


def read_events(spark: SparkSession, source: SourceSection, event_time: str | None) -> Events:
    """A stream over the source's files, oldest first.

    Columns come from the configured `schema`, else from the files themselves. An event time in text
    form is parsed; a row with an invalid time is malformed.

    Raises:
        RefusedError: the path is missing, the files have another format, or `timestamp_format` is
            not a pattern.
    """
    if source.timestamp_format is not None:
        _check_pattern(spark, source.timestamp_format)
    options = _options(source)
    try:
        schema = _schema(spark, source, options)
        reader = spark.readStream.format(source.format).options(**options, maxFileAge=_ANY_AGE)
        reader = reader.schema(schema)
        if source.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", source.files_per_batch)
        events = reader.load(_as_stream_path(spark, source.path))
    except AnalysisException as error:
        if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
            raise RefusedError(
                f"source {source.path} contains no {source.format} files to infer columns from; "
                "add some, or set `schema:` in the configuration (for files in subfolders, use a "
                "pattern such as logs/*/*)"
            ) from error
        raise RefusedError(
            f"source {source.path} cannot be read as {source.format}: {spark_says(str(error))}"
        ) from error
    texts = [field.name for field in events.schema if isinstance(field.dataType, StringType)]
    if event_time in texts:
        events = _parsed(events, event_time, source.timestamp_format)
    return Events(events, CORRUPT if CORRUPT in events.columns else None)


def _check_pattern(spark: SparkSession, pattern: str) -> None:
    """Refuse an invalid pattern: otherwise Spark fails in a batch, or finds all rows malformed."""
    parsed = F.try_to_timestamp(F.lit(""), F.lit(pattern))
    try:
        spark.range(1).select(parsed).collect()
    except PySparkException as error:
        raise RefusedError(
            f"timestamp_format: {pattern} is not a pattern of Spark; use lower-case yyyy for years "
            "and put letters in quotes, such as yyyy-MM-dd'T'HH:mm:ss"
        ) from error


def _parsed(events: DataFrame, event_time: str, pattern: str | None) -> DataFrame:
    """Times in text form as timestamps; an invalid one makes its row malformed."""
    text = F.col(quoted(event_time))
    moment = F.try_to_timestamp(text, None if pattern is None else F.lit(pattern))
    unparsed = F.when(text.isNotNull() & moment.isNull(), text)
    known = [F.col(CORRUPT)] if CORRUPT in events.columns else []
    return events.withColumns({CORRUPT: F.coalesce(*known, unparsed), event_time: moment})


def _as_stream_path(spark: SparkSession, path: str) -> str:
    """The path for a stream: a single file becomes a pattern that matches only itself.

    Spark treats a plain path as the folder of a partitioned table, which a file is not.
    """
    parent, slash, name = path.rpartition("/")
    if any(glob in path for glob in _GLOBS) or not name:
        return path
    hadoop = Hadoop(spark)
    file = hadoop.path(path)
    system = hadoop.system(file)
    if not system.exists(file) or not system.getFileStatus(file).isFile():
        return path
    return f"{parent}{slash}[{name[0]}]{name[1:]}"


def _options(source: SourceSection) -> dict[str, str]:
    if source.format == "parquet":
        return {}
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if source.format == "csv":
        options |= {"header": str(source.header).lower(), "sep": source.delimiter}
        options["escape"] = source.escape
        # By default, Spark ignores headers, and a file with other columns is misread.
        options["enforceSchema"] = "false"
    if source.timestamp_format is not None:
        options["timestampFormat"] = source.timestamp_format
    return options


def _schema(spark: SparkSession, source: SourceSection, options: dict[str, str]) -> StructType:
    if source.ddl is not None:
        schema = cast("StructType", StructType.fromDDL(source.ddl))
    else:
        infer = {"inferSchema": "true"} if source.format == "csv" else {}
        schema = (
            spark.read.format(source.format).options(**options, **infer).load(source.path).schema
        )
    if source.format == "parquet":
        return schema
    plain = [field for field in schema.fields if field.name != CORRUPT]
    return StructType([*plain, StructField(CORRUPT, StringType())])
