"""Which Java Spark would run with, and what is wrong with it."""

from pathlib import Path

import pytest

from idlestate.service.java import java_trouble


def java(home: Path, said: str) -> Path:
    """A home with a `java` that says so much of itself."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    return tmp_path


@pytest.fixture
def path(none: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a Java that fits on the PATH."""
    home = java(none / "good", 'openjdk version "17.0.12" 2024-07-16')
    monkeypatch.setenv("PATH", str(home / "bin"))
    return none


def test_a_java_on_the_path_will_do(path: Path) -> None:
    assert java_trouble() is None


def test_no_java_at_all_is_to_be_installed(none: Path) -> None:
    assert (java_trouble() or "").startswith("Java not found; install a Java 17 runtime")


@pytest.mark.parametrize("home", ["", "good"])
def test_a_java_home_that_fits_or_is_empty_will_do(
    path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", home and str(path / home))
    assert java_trouble() is None


@pytest.mark.parametrize(
    ("holds", "words"),
    [
        (None, "{home} does not exist"),
        ([], "{home} holds no bin/java (it holds nothing)"),
        (["jre", "notes.txt"], "{home} holds no bin/java (it holds jre, notes.txt)"),
    ],
    ids=["missing", "empty", "other files"],
)
def test_a_wrong_java_home_is_told_of_though_the_path_has_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, holds: list[str] | None, words: str
) -> None:
    home = path / "home"
    for name in holds or ():
        (home / name).mkdir(parents=True)
    if holds is not None:
        home.mkdir(exist_ok=True)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_trouble() == (
        f"JAVA_HOME is wrong: {words.format(home=home)}; unset it to use {path}/good/bin/java, "
        "or set it to the home of a Java 17 runtime or newer"
    )


def test_a_java_home_that_is_a_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(path / "good" / "bin" / "java"))
    assert "holds no bin/java (it is a file)" in (java_trouble() or "")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('java version "1.8.0_412"', "is Java 8, and Spark needs 17 or newer"),
        ('openjdk version "16.0.2" 2021-07-20', "is Java 16, and Spark needs 17 or newer"),
        ("node v20", "is not a Java runtime: `java -version` says node v20"),
    ],
)
def test_a_java_that_is_too_old_or_none_is_named(
    none: Path, monkeypatch: pytest.MonkeyPatch, said: str, words: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(none / "old", said)))
    assert f"JAVA_HOME is wrong: {none}/old/bin/java {words}; install" in (java_trouble() or "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(none / "old" / "bin"))
    assert words in (java_trouble() or "")


def test_newer_ones_will_do(none: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(none / "new", 'openjdk version "21" 2023-09-19')))
    assert java_trouble() is None
