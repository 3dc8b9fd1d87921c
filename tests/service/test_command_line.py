"""Files that tests give to running queries."""

import os

from tests.service.command_line import FIRST_MODIFIED_S, CommandLine, event


def test_a_running_query_sees_an_added_file_only_with_its_own_time(tmp_path, monkeypatch):
    """Spark orders files by the times that it sees first."""
    line = CommandLine(tmp_path)
    set_time = os.utime

    def while_unseen(*given: object) -> None:
        assert not list(line.events.iterdir())
        set_time(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "utime", while_unseen)
    path = line.add("0.json", [event("2025-03-03T10:00:00Z", "ann")])
    assert path.stat().st_mtime == FIRST_MODIFIED_S + 1
    assert [*line.events.iterdir()] == [path]
