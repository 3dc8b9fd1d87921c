"""Hadoop's file systems, which Spark reads and writes with, by way of the JVM.

Spark has no public interface to them in Python: `_jvm` and `_jsc` of the context are private.
"""

from typing import Any, cast

from pyspark.sql import SparkSession

from idlestate.pipeline.spark_version import private_part


class Hadoop:
    """File systems as the session's Hadoop settings have them; paths are Java's objects."""

    def __init__(self, spark: SparkSession) -> None:
        """Take the settings of a session.

        Raises:
            RefusedError: this Spark has them elsewhere.
        """
        with private_part("Hadoop's file systems (_jvm and _jsc of the SparkContext)"):
            context = cast("Any", spark.sparkContext)
            self._jvm = context._jvm  # noqa: SLF001
            self._configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def is_local(self) -> bool:
        """Whether paths without a scheme are files of this machine."""
        scheme: str = self._configuration.get("fs.defaultFS")
        return scheme.startswith("file:")

    def path(self, *parts: Any) -> Any:
        """A path from text, or from a folder's path and a name."""
        return self._jvm.org.apache.hadoop.fs.Path(*parts)

    def path_of_url(self, url: str) -> Any:
        """A path from a URL in which Spark has escaped characters."""
        return self.path(self._jvm.java.net.URI(url))

    def system(self, path: Any) -> Any:
        """The file system that a path is on."""
        return path.getFileSystem(self._configuration)

    def read(self, path: Any) -> str:
        """The text of a whole file."""
        stream = self.system(path).open(path)
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text
