"""The event log of `idlestate advise --spark`: a Spark session, and the files as a DataFrame."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from idlestate.advisor.files import files_of, format_of
from idlestate.service.spark_errors import plain_error
from idlestate.service.spark_session import start_spark


@contextmanager
def log_on_spark(data: str) -> Iterator[DataFrame]:
    """The events of a local file or folder, or of a URL that Spark can read.

    Raises:
        IdlestateError: nothing is there, Spark does not start, or it fails; the text says why.
    """
    if "://" in data:
        kind, files = format_of(PurePosixPath(data)) or "parquet", [data]
    else:
        kind, found = files_of(Path(data))
        files = [str(file.absolute()) for file in found]
    folder = Path(tempfile.mkdtemp(prefix="idlestate-advise-"))
    log = folder / "spark.log"
    spark = start_spark(None, log)
    options = {"header": "true", "inferSchema": "true"} if kind == "csv" else {}
    try:
        yield spark.read.format(kind).options(**options).load(files)
    except (PySparkException, Py4JError, OSError) as error:
        raise plain_error(error, log) from error  # the error names the log, which is kept
    except BaseException:
        shutil.rmtree(folder)
        raise
    else:
        shutil.rmtree(folder)
    finally:
        spark.stop()
