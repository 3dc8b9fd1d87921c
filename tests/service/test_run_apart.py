"""`idlestate run` as people start it: a process and a JVM of its own, seen from outside."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.metrics import families
from tests.crash.processes import Run, wait_until
from tests.service.command_line import CommandLine, Said, assert_good, assert_refused, event
from tests.service.rows import last_counts, rows
from tests.service.scrape import scrape

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc"),
]


@pytest.fixture
def running(line: CommandLine) -> Iterator[Run]:
    """A run that looks for new files every 200 ms until it is interrupted."""
    line.add("0.json", [event("2025-03-03T10:00:00Z", "ann"), event(None, "nil")])
    line.write(trigger="200ms")
    run = Run(line.config, line.folder / "run.log")
    yield run
    run.end()


def test_a_run_goes_on_with_new_files_is_scraped_and_tells_that_its_jvm_was_killed(
    running: Run, here: CommandLine
):
    def committed(batch_id: int) -> bool:
        assert running.code is None, running.said()
        return (here.checkpoint / "commits" / str(batch_id)).exists()

    wait_until("the first batch", lambda: committed(0))
    here.add("1.json", [event("2025-03-03T12:00:00Z", "ann"), event("2025-03-03T12:00:00Z", "bob")])
    wait_until("the end of the first life", lambda: bool(rows(here.out / "expired")))
    url = re.search(r"http://\S+/metrics", running.said())
    assert url is not None

    def served() -> dict[str, float]:
        return scrape(url[0])

    wait_until("figures of the last batch", lambda: served()[families.RETURNING_KEYS.name] == 1)
    figures = served()
    assert figures[families.INPUT_ROWS.name] == 4
    assert figures[families.LIVE_KEYS.name] == 2
    assert figures[f"{families.KEYS_EXPIRED.name} idle"] == 1
    assert figures[f"{families.REJECTED_ROWS.name} null_time"] == 1

    running.kill_jvm()  # as the kernel does it when memory runs out
    code = running.wait()
    assert_refused(Said(code, running.said()), "Spark's JVM is gone", "same command")

    here.write()
    said = here.run()
    assert_good(said)
    assert said.summary()["rows"] == "4"
    assert said.summary()["live now"].startswith("2 keys")
    assert last_counts(here.out / "results") == {"ann": 1, "bob": 1}
