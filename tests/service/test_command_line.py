"""Files that tests give to running queries."""

import os

from tests.service.command_line import CommandLine, event


def test_a_running_query_sees_an_added_file_only_with_its_own_time(tmp_path, monkeypatch):
    """Spark takes files a week older than the newest it has seen for too old."""
    line = CommandLine(tmp_path)
    dated = os.utime

    def before_it_is_dated(*given: object) -> None:
        assert not list(line.events.iterdir())
        dated(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "utime", before_it_is_dated)
    path = line.add("0.json", [event("2025-03-03T10:00:00Z", "ann")])
    assert path.stat().st_mtime < 1_700_000_000
    assert [*line.events.iterdir()] == [path]
