"""A running `idlestate run` whose policy is changed from outside, by signal and by saving, and
which is interrupted at last.
"""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.metrics import names
from tests.crash.processes import Run, wait_until
from tests.service.command_line import CommandLine, Said, assert_good, assert_refused, event
from tests.service.rows import rows
from tests.service.scrape import scrape

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc"),
]


@pytest.fixture
def running(line: CommandLine) -> Iterator[Run]:
    line.add("0.json", [event("2025-03-03T10:00:00Z", "ann"), event("2025-03-03T10:20:00Z", "bob")])
    line.write(trigger="200ms")
    run = Run(line.config, line.folder / "run.log")
    yield run
    run.end()


def test_a_run_takes_a_new_policy_refuses_a_broken_one_and_is_interrupted(
    running: Run, here: CommandLine
):
    def said(words: str) -> bool:
        assert running.code is None, running.said()
        return words in running.said()

    def save(old: str, new: str) -> None:
        here.config.write_text(here.config.read_text().replace(old, new))

    def served(name: str) -> float:
        url = re.search(r"http://\S+/metrics", running.said())
        assert url is not None
        return scrape(url[0])[name]

    wait_until("the first batch", (here.checkpoint / "commits" / "0").exists)
    # Broken: told by line and field, and the old one goes on.
    save("30m", "30 parsecs")
    wait_until("the refusal", lambda: said(f"{here.config}:5: policies.short.idle.min"))
    assert served(names.CONFIG_RELOAD_GOOD.name) == 0
    assert served(names.POLICY_VERSION.name) == 1

    # Asked for: a window in which ann's pause of 20 minutes is too long.
    save("30 parsecs", "2m")
    save("45m", "10m")
    os.kill(running.pid, signal.SIGHUP)
    wait_until("the new policy", lambda: said("clicks gets idle 2m to 10m as version 2"))
    # A scrape is repeated for a second.
    wait_until("a scrape that shows it", lambda: served(names.CONFIG_RELOAD_GOOD.name) == 1)
    assert not rows(here.out / "expired")

    def takes_effect() -> bool:
        # A version takes effect with a batch that has data.
        number = len(list(here.events.iterdir()))
        here.add(f"{number}.json", [event("2025-03-03T10:20:00Z", "bob")])
        wait_until("the batch", lambda: bool(rows(here.out / "results")) and caught_up(number))
        return served(names.POLICY_VERSION.name) == 2

    def caught_up(number: int) -> bool:
        assert running.code is None, running.said()
        return len(list((here.checkpoint / "sources" / "0").glob("[0-9]*"))) > number

    wait_until("the second version", takes_effect)
    wait_until("ann's end", lambda: [row["user"] for row in rows(here.out / "expired")] == ["ann"])
    assert served(names.RETENTION_MAX.name) == 600

    os.kill(running.pid, signal.SIGINT)
    assert_refused(
        Said(running.wait(), running.said()), "to continue from the last committed batch", code=130
    )
    save("trigger: 200ms\n", "")
    again = here.run()
    assert_good(again)
    assert again.summary()["rows"] == str(1 + len(list(here.events.iterdir())))
