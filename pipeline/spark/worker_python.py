"""`idlestate-python`: this Python, for processes that Spark starts; they import pyspark compiled.

Spark puts its Python code first on their path, as a zip file without compiled code: every process
compiles what it imports, which takes over half a second at each start of a query. The installed
pyspark that contains the zip file has the same code, compiled. So this program takes the zip files
of Spark off the path. It loads little, because every such process waits for it.
"""

import os
import sys


def main() -> None:
    """Run this Python with the arguments of the command line."""
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(each for each in path if not _is_zip_of_spark(each))
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 - it is this Python


def _is_zip_of_spark(place: str) -> bool:
    name = place.rpartition(os.sep)[2]
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))
