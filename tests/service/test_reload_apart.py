"""A running `idlestate run` whose policy is changed from outside, by signal and by saving, and
which is interrupted at last.
"""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.metrics import families
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


class Changed:
    """The run, and the file that its policy comes from."""

    def __init__(self, run: Run, line: CommandLine) -> None:
        self.run = run
        self._line = line
        wait_until("the first batch", (line.checkpoint / "commits" / "0").exists)

    def said(self, words: str) -> bool:
        assert self.run.code is None, self.run.said()
        return words in self.run.said()

    def save(self, old: str, new: str) -> None:
        config = self._line.config
        config.write_text(config.read_text().replace(old, new))

    def served(self, name: str) -> float:
        url = re.search(r"http://\S+/metrics", self.run.said())
        assert url is not None
        return scrape(url[0])[name]

    def ask_for_ten_minutes(self) -> None:
        """A window in which ann's pause of 20 minutes is too long."""
        self.save("30m", "2m")
        self.save("45m", "10m")
        os.kill(self.run.pid, signal.SIGHUP)
        wait_until("the policy", lambda: self.said("clicks gets idle 2m to 10m as version 2"))


def test_a_run_refuses_a_broken_policy_takes_a_new_one_and_is_interrupted(
    running: Run, here: CommandLine
) -> None:
    changed = Changed(running, here)
    # Broken: told by line and field, and the old one goes on.
    changed.save("30m", "30 parsecs")
    refusal = f"{here.config}:5: policies.short.idle.min"
    wait_until("the refusal", lambda: changed.said(refusal))
    assert changed.served(families.CONFIG_RELOAD_GOOD.name) == 0
    assert changed.served(families.POLICY_VERSION.name) == 1

    changed.save("30 parsecs", "30m")
    changed.ask_for_ten_minutes()
    # A scrape is repeated for a second.
    wait_until("a scrape", lambda: changed.served(families.CONFIG_RELOAD_GOOD.name) == 1)
    assert not rows(here.out / "expired")

    os.kill(running.pid, signal.SIGINT)
    assert_refused(
        Said(running.wait(), running.said()), "to continue from the last committed batch", code=130
    )
    changed.save("trigger: 200ms\n", "")
    here.add("1.json", [event("2025-03-03T10:20:00Z", "bob")])
    again = here.run()
    assert_good(again)
    assert again.summary()["rows"] == "3"
    assert [row["user"] for row in rows(here.out / "expired")] == ["ann"]


@pytest.mark.long
def test_a_new_policy_takes_effect_while_the_run_goes_on(running: Run, here: CommandLine) -> None:
    changed = Changed(running, here)
    changed.ask_for_ten_minutes()

    def takes_effect() -> bool:
        # A version takes effect with a batch that has data.
        number = len(list(here.events.iterdir()))
        here.add(f"{number}.json", [event("2025-03-03T10:20:00Z", "bob")])
        wait_until("the batch", lambda: bool(rows(here.out / "results")) and caught_up(number))
        return changed.served(families.POLICY_VERSION.name) == 2

    def caught_up(number: int) -> bool:
        assert running.code is None, running.said()
        return len(list((here.checkpoint / "sources" / "0").glob("[0-9]*"))) > number

    wait_until("the second version", takes_effect)
    wait_until("ann's end", lambda: [row["user"] for row in rows(here.out / "expired")] == ["ann"])
    assert changed.served(families.RETENTION_MAX.name) == 600
