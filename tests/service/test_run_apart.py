"""`idlestate run` as people start it: a process and a JVM of its own, seen from outside."""

import os
import re
import signal
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
    pytest.mark.long,
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


class Watched:
    """The run as it is seen from outside, and the file that its policy comes from."""

    def __init__(self, run: Run, line: CommandLine) -> None:
        self.run = run
        self._line = line
        wait_until("the first batch", lambda: self.has_committed(0))

    def has_committed(self, batch_id: int) -> bool:
        assert self.run.code is None, self.run.said()
        return (self._line.checkpoint / "commits" / str(batch_id)).exists()

    def said(self, words: str) -> bool:
        assert self.run.code is None, self.run.said()
        return words in self.run.said()

    def save(self, old: str, new: str) -> None:
        config = self._line.config
        config.write_text(config.read_text().replace(old, new))

    def served(self) -> dict[str, float]:
        url = re.search(r"http://\S+/metrics", self.run.said())
        assert url is not None
        return scrape(url[0])

    def ask_for_ten_minutes(self) -> None:
        """A window in which ann's pause of 20 minutes is too long."""
        self.save("30m", "2m")
        self.save("45m", "10m")
        os.kill(self.run.pid, signal.SIGHUP)
        wait_until("the policy", lambda: self.said("clicks uses idle 2m to 10m (version 2)"))


def test_a_run_goes_on_with_new_files_is_scraped_reloads_and_tells_that_its_jvm_was_killed(
    running: Run, here: CommandLine
) -> None:
    watched = Watched(running, here)
    here.add("1.json", [event("2025-03-03T12:00:00Z", "ann"), event("2025-03-03T12:00:00Z", "bob")])
    wait_until("the end of the first life", lambda: bool(rows(here.out / "expired")))
    returning = families.RETURNING_KEYS.name
    wait_until("figures of the last batch", lambda: watched.served()[returning] == 1)
    figures = watched.served()
    assert figures[families.INPUT_ROWS.name] == 4
    assert figures[families.LIVE_KEYS.name] == 2
    assert figures[f"{families.KEYS_EXPIRED.name} idle"] == 1
    assert figures[f"{families.REJECTED_ROWS.name} null_time"] == 1

    # A broken policy is told by line and field, and the old one goes on.
    watched.save("30m", "30 parsecs")
    refusal = f"{here.config}:5: policies.short.idle.min"
    wait_until("the refusal", lambda: watched.said(refusal))
    good = families.CONFIG_RELOAD_GOOD.name
    wait_until("a scrape of it", lambda: watched.served()[good] == 0)  # one is good for a second
    assert watched.served()[families.POLICY_VERSION.name] == 1
    watched.save("30 parsecs", "30m")
    watched.ask_for_ten_minutes()
    wait_until("a scrape after it", lambda: watched.served()[good] == 1)

    running.kill_jvm()  # as the kernel does it when memory runs out
    code = running.wait()
    assert_refused(Said(code, running.said()), "Spark's JVM exited", "same command")

    here.write()
    said = here.run()
    assert_good(said)
    assert said.summary()["rows"] == "4"
    assert said.summary()["live now"].startswith("2 keys")
    assert last_counts(here.out / "results") == {"ann": 1, "bob": 1}


def test_an_interrupted_run_goes_on_with_the_policy_in_its_file(
    running: Run, here: CommandLine
) -> None:
    watched = Watched(running, here)
    watched.ask_for_ten_minutes()
    assert not rows(here.out / "expired")
    os.kill(running.pid, signal.SIGINT)
    assert_refused(
        Said(running.wait(), running.said()), "to continue from the last committed batch", code=130
    )
    watched.save("trigger: 200ms\n", "")
    here.add("1.json", [event("2025-03-03T10:20:00Z", "bob")])
    again = here.run()
    assert_good(again)
    assert again.summary()["rows"] == "3"
    assert [row["user"] for row in rows(here.out / "expired")] == ["ann"]


def test_a_new_policy_takes_effect_while_the_run_goes_on(running: Run, here: CommandLine) -> None:
    watched = Watched(running, here)
    watched.ask_for_ten_minutes()

    def takes_effect() -> bool:
        # A version takes effect with a batch that has data.
        number = len(list(here.events.iterdir()))
        here.add(f"{number}.json", [event("2025-03-03T10:20:00Z", "bob")])
        wait_until("the batch", lambda: bool(rows(here.out / "results")) and caught_up(number))
        return watched.served()[families.POLICY_VERSION.name] == 2

    def caught_up(number: int) -> bool:
        assert running.code is None, running.said()
        return len(list((here.checkpoint / "sources" / "0").glob("[0-9]*"))) > number

    wait_until("the second version", takes_effect)
    wait_until("ann's end", lambda: [row["user"] for row in rows(here.out / "expired")] == ["ann"])
    assert watched.served()[families.RETENTION_MAX.name] == 600
