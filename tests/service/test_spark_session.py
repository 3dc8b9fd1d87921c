"""The session of `idlestate run`: what it writes to its log never reaches the terminal."""

import contextlib
import logging
from pathlib import Path

import pytest

from idlestate.service.spark_session import LogFile


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is imitated by /dev/full")
def test_a_log_on_a_full_disk_says_nothing_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    log(LogFile("/dev/full", delay=True))
    assert capsys.readouterr() == ("", "")


def test_a_log_that_cannot_be_opened_says_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log(LogFile(tmp_path / "no" / "such" / "folder.log", delay=True))
    assert capsys.readouterr() == ("", "")


def test_a_log_takes_what_it_is_told(tmp_path: Path) -> None:
    log(LogFile(tmp_path / "spark.log", delay=True))
    text = (tmp_path / "spark.log").read_text()
    assert "the JVM is gone" in text
    assert "Traceback" in text


def log(handler: logging.Handler) -> None:
    """Log an error with its traceback, as the link to the JVM does."""
    logger = logging.Logger("py4j")
    logger.addHandler(handler)
    try:
        raise ConnectionResetError
    except ConnectionResetError:
        logger.exception("the JVM is gone")
    with contextlib.suppress(OSError):  # what a full disk did not take cannot be flushed either
        handler.close()
