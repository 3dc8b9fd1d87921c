"""A Spark home for tests, whose processes do the same with less work."""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from zipfile import ZipFile
from zlib import crc32

import pyspark

HOMES = Path(__file__).resolve().parents[1] / "build" / "spark-homes"
FILES = Path(__file__).with_name("java") / "QuickFiles.java"
SETTINGS = """<configuration>
<property><name>fs.file.impl</name><value>QuickFiles</value></property>
<property><name>fs.AbstractFileSystem.file.impl</name><value>QuickFiles$Context</value></property>
</configuration>
"""
UNUSED_JARS = (
    *("datanucleus", "derby", "hive-beeline", "hive-cli", "hive-common", "hive-exec", "hive-jdbc"),
    *("hive-metastore", "hive-serde", "hive-service", "hive-shims", "javax.jdo", "jdo-api", "jta"),
    *("libfb303", "libthrift", "spark-hive"),
    *("kubernetes", "spark-kubernetes", "vertx", "volcano", "spark-yarn"),
    *("JLargeArrays", "JTransforms", "arpack", "blas", "breeze", "lapack", "spire"),
    *("spark-graphx", "spark-mllib", "spark-connect", "spark-pipelines", "spark-repl"),
    *("netty-tcnative-boringssl", "netty-transport-native-kqueue"),
)
"""What the names of jars start with that no test uses."""


def quick_home(homes: Path = HOMES) -> Path:
    """The installed pyspark's folder as links, with three differences.

    `python/lib/pyspark.zip` is missing. Spark puts it first on the path of each Python process that
    it starts: one per start of a query, and several per data source in Python. It contains no
    compiled code, so each of them compiles what it imports, for half a second. Without the zip they
    import the installed pyspark, which is the same.

    `jars/quick-files.jar` has Hadoop set permissions of local files itself, instead of by one
    process per file.

    Clients of Hive, Kubernetes and YARN and Spark's machine learning are missing: a JVM looks up
    each class, and PySpark each package, in all jars.
    """
    installed = Path(pyspark.__file__).parent
    made_of = f"{installed} {UNUSED_JARS} {SETTINGS} {FILES.read_text()} {java_compiler()}"
    home = homes / f"{pyspark.__version__}-{crc32(made_of.encode()):08x}"
    if home.exists():
        return home
    homes.mkdir(parents=True, exist_ok=True)
    making = Path(mkdtemp(dir=homes))
    link_all(installed, making, leave_out=("jars", "python"))
    link_all(installed / "jars", making / "jars", leave_out=UNUSED_JARS)
    set_permissions_quickly(making / "jars")
    try:
        making.rename(home)
    except OSError:  # another process was first
        shutil.rmtree(making)
    return home


def java_compiler() -> str | None:
    """The Java compiler of the runtime that tests use; some runtimes have none."""
    java_home = os.environ.get("JAVA_HOME")
    return shutil.which("javac", path=f"{java_home}/bin" if java_home else None)


def link_all(source: Path, target: Path, leave_out: tuple[str, ...]) -> None:
    """Links to what is in a folder, but for names that start with one of these."""
    target.mkdir(exist_ok=True)
    for part in source.iterdir():
        if not part.name.startswith(leave_out):
            (target / part.name).symlink_to(part)


def set_permissions_quickly(jars: Path) -> None:
    """Add our files and the settings to the jars; without a compiler, Hadoop's own files do."""
    compiler = java_compiler()
    if compiler is None:
        return
    path = os.pathsep.join(map(str, jars.glob("hadoop-client-*.jar")))
    with TemporaryDirectory() as classes, ZipFile(jars / "quick-files.jar", "w") as jar:
        command = [compiler, "-nowarn", "-proc:none", "-cp", path, "-d", classes, str(FILES)]
        subprocess.run(command, capture_output=True, check=True)
        for compiled in Path(classes).iterdir():
            jar.write(compiled, compiled.name)
        jar.writestr("core-site.xml", SETTINGS)
