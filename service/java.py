"""Checks the Java runtime that Spark would use."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from idlestate.config.problems import listed

LEAST = 17
"""The oldest Java version that Spark supports."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PATIENCE_S = 20.0
_INSTALL = (
    f"install a Java {LEAST} runtime or newer (Debian, Ubuntu: apt-get install "
    f"openjdk-{LEAST}-jre-headless), or set JAVA_HOME to one"
)


def java_trouble() -> str | None:
    """Why Spark cannot run with the Java that it finds, and how to fix it; None if it can.

    Like Spark, this checks JAVA_HOME first, and the PATH only if JAVA_HOME is not set.
    """
    on_path = shutil.which("java")
    home = os.environ.get("JAVA_HOME")
    if not home:
        wrong = _wrong_with(Path(on_path)) if on_path else "Java not found"
        return wrong and f"{wrong}; {_INSTALL}"
    java = Path(home, "bin", "java")
    if not Path(home).exists():
        wrong = f"{home} does not exist"
    elif not os.access(java, os.X_OK) or not java.is_file():
        wrong = f"{home} holds no bin/java ({_held_by(home)})"
    else:
        wrong = _wrong_with(java)
    if wrong is None:
        return None
    if on_path and _wrong_with(Path(on_path)) is None:
        return (
            f"JAVA_HOME is wrong: {wrong}; unset it to use {on_path}, or set it to the home of a "
            f"Java {LEAST} runtime or newer"
        )
    return f"JAVA_HOME is wrong: {wrong}; {_INSTALL}"


def _held_by(home: str) -> str:
    """The content of the folder that should contain a Java runtime."""
    try:
        return f"it holds {listed(sorted(os.listdir(home))) or 'nothing'}"  # noqa: PTH208
    except NotADirectoryError:
        return "it is a file"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _wrong_with(java: Path) -> str | None:
    """What is wrong with an executable; None if it is a Java version that Spark supports."""
    try:
        done = subprocess.run(  # noqa: S603 - the program that Spark would start itself
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not run: {error}"
    found = _VERSION.search(done.stdout)
    if found is None:
        said = done.stdout.strip().partition("\n")[0] or "nothing"
        return f"{java} is not a Java runtime: `java -version` says {said}"
    if int(found[1]) < LEAST:
        return f"{java} is Java {found[1]}, and Spark needs {LEAST} or newer"
    return None
