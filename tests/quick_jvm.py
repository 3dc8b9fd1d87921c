"""Options of a JVM that lives for seconds or minutes: it never earns back its second compiler."""

import os
from pathlib import Path

JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
# With one compiler alone Java takes 48 MB for code: it would throw code away and compile it again.
WITHOUT_CLASSES = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
CLASSES = "classes.jsa"
"""An archive of loaded classes in a Spark home, which `tests/share_classes.py` makes."""


def quick_jvm() -> str:
    """The options, with the archive where there is one. A JVM that it does not fit ignores it."""
    archive = Path(os.environ.get("SPARK_HOME", "")) / CLASSES
    if not archive.is_absolute() or not archive.exists():
        return WITHOUT_CLASSES
    return f"{WITHOUT_CLASSES} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
