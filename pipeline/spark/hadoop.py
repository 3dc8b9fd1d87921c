"""Hadoop's file systems, which Spark uses, through the JVM.

Spark has no public interface to them in Python: `_jvm` and `_jsc` of the context are private.
"""

from typing import Any, cast

from pyspark.sql import SparkSession

from idlestate.pipeline.spark.spark_version import private_part


class Hadoop:
    """File systems with the session's Hadoop settings; paths are Java objects."""

    def __init__(self, spark: SparkSession) -> None:
        """Take the settings of a session.

        Raises:
            RefusedError: in this version of Spark, they are elsewhere.
        """
        with private_part("Hadoop's file systems (_jvm and _jsc of the SparkContext)"):
            context = cast("Any", spark.sparkContext)
            # By whole names: for `jvm.org.apache`, the JVM searches all jars for a class `org`.
            self._path, self._uri, self._streams = (
                getattr(context._jvm, name)  # noqa: SLF001
                for name in (
                    "org.apache.hadoop.fs.Path",
                    "java.net.URI",
                    "org.apache.commons.io.IOUtils",
                )
            )
            self._configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def is_local(self) -> bool:
        """Whether paths without a scheme are files of this machine."""
        scheme: str = self._configuration.get("fs.defaultFS")
        return scheme.startswith("file:")

    def path(self, *parts: Any) -> Any:
        """The path for a text, or for a name in a folder."""
        return self._path(*parts)

    def path_of_url(self, url: str) -> Any:
        """The path of a URL in which Spark has escaped characters."""
        return self.path(self._uri(url))

    def system(self, path: Any) -> Any:
        """The file system of a path."""
        return path.getFileSystem(self._configuration)

    def exists(self, url: str) -> bool:
        """Whether a file exists, by its URL in which Spark has escaped characters."""
        path = self.path_of_url(url)
        return bool(self.system(path).exists(path))

    def read(self, path: Any) -> str:
        """The content of a file as text."""
        stream = self.system(path).open(path)
        try:
            text: str = self._streams.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text
