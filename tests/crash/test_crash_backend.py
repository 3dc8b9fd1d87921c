"""`kill -9` while keyed state is written, swept, compacted and snapshotted.

What was acknowledged is there, what is there is a prefix of what was written, each batch whole;
nothing expired comes back, nothing live is gone; a snapshot that is there is whole.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.state.backend_factory import open_backend
from idlestate.timers.clock import FakeClock
from tests.crash.backend_writer import (
    BRIEF_KEYS,
    KEYS,
    TTL_ROUNDS,
    brief_keys,
    service,
    states,
)
from tests.lengths import short_and_long

WRITER = Path(__file__).parent / "backend_writer.py"
ROOT = Path(__file__).parents[2]


MOMENTS = {
    "rocksdb": ["write", "snapshot", "compact", "sweep"],
    "runs": ["commit", "snapshot", "compact", "write", "sweep"],
}
"""What the writer is killed in the middle of, in turn."""
SHORT_CRASHES = 3
CRASHES = int(os.environ.get("IDLESTATE_BACKEND_CRASHES", "10"))
"""In the long form; the short one crashes in the first of them."""


def run_and_kill(folder, kind, first, moment, times, chance):
    """Kill the writer in the middle of what it announces for the nth time.

    Returns the last round that it acknowledged.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    with (folder / "errors").open("w") as errors:
        writer = subprocess.Popen(
            [sys.executable, str(WRITER), str(folder), str(first), kind],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
    last = first - 1
    for line in map(str.strip, writer.stdout):
        if line.isdigit():
            last = int(line)
        times -= line == moment
        if not times:
            sum(range(chance.randrange(100_000)))  # somewhere in its first milliseconds
            writer.send_signal(signal.SIGKILL)
            break
    rest = writer.stdout.read().split()
    writer.stdout.close()
    assert writer.wait() == -signal.SIGKILL, (folder / "errors").read_text()
    return max([last, *(int(each) for each in rest if each.isdigit())])


def look(kind, place, restore=()):
    """Rounds that value, lists, short-lived values and timers speak of; all consistent."""
    clock = FakeClock(0)
    with open_backend(kind, place, clock=clock, restore=restore) as backend:
        value, elements, brief = states(backend)
        found = set(value.get_many(KEYS).to_pylist())
        lists = {tuple(each) for each in elements.get_many(KEYS).to_pylist()}
        assert len(found) == 1, "half a batch of values"
        assert len(lists) == 1, "half a batch of list elements"
        (last,), (all_rounds,) = found, lists
        assert list(all_rounds) == list(range(len(all_rounds))), "a hole, or a round twice"
        times = [timer.timestamp_ms for timer in service(backend).timers(TimeDomain.EVENT)]
        assert times == list(range(len(times)))
        clock.advance(last)
        # The writer's clock was one further when it swept.
        live = range(max(last - TTL_ROUNDS + 2, 0), last)
        keys = [key for number in live for key in brief_keys(number)]
        lives = brief.get_many(keys).to_pylist()
        assert lives == [number for number in live for _ in range(BRIEF_KEYS)]
        dead = range(max(last - TTL_ROUNDS + 1, 0))
        gone = [key for number in dead for key in brief_keys(number)]
        assert brief.get_many(gone).null_count == len(gone)
        return last, len(all_rounds) - 1, len(times) - 1


@short_and_long("crashes", SHORT_CRASHES, CRASHES)
@pytest.mark.parametrize("kind", MOMENTS)
def test_what_was_acknowledged_survives(tmp_path, kind, crashes):
    chance, acknowledged, first = random.Random(7), -1, 0
    for number in range(crashes):
        moment = MOMENTS[kind][number % len(MOMENTS[kind])]
        last = run_and_kill(tmp_path, kind, first, moment, chance.randrange(1, 4), chance)
        value, elements, times = look(kind, tmp_path / "db")
        assert acknowledged <= last <= value <= last + 1
        assert last <= elements <= value
        assert last <= times <= elements
        acknowledged = last
        if kind == "runs":
            assert value == elements == times, "a part of a commit"
            assert_no_leftovers(tmp_path / "db")
        else:
            # A round that was cut off is done again as far as it went missing.
            with open_backend(kind, tmp_path / "db", clock=FakeClock(value)) as backend:
                finish(backend, elements, times, value)
        first = value + 1
        whole = [path for path in tmp_path.glob("snapshot-*") if path.suffix == ""]
        for folder in whole[:1]:
            look(kind, tmp_path / f"restored-{number}", [folder])
        for folder in tmp_path.glob("snapshot-*"):
            shutil.rmtree(folder)


def assert_no_leftovers(place):
    """Opening removed what the last commit does not name."""
    named = (place / "state.json").read_text()
    assert all(path.name in named for path in (place / "runs" / "0").iterdir())


def finish(backend, elements, times, value):
    _, lists, brief = states(backend)
    if elements < value:
        lists.add_many(KEYS, [value] * len(KEYS))
    brief.put_many(brief_keys(value), [value] * BRIEF_KEYS)
    if times < value:
        service(backend).register_many(TimeDomain.EVENT, [KEYS[0]], None, [value])
