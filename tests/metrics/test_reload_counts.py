"""The metrics of configuration loads."""

from idlestate.metrics import families
from idlestate.metrics.reload_counts import ReloadCounts


def test_nothing_is_said_to_have_failed_before_the_first_load() -> None:
    """A query may take long to start; an alert would fire meanwhile."""
    counts = ReloadCounts()
    assert counts.samples(0)[families.CONFIG_RELOAD_GOOD] == {}
    for good in (True, False):
        counts.count(good=good, now_ms=5000)
        assert counts.samples(0)[families.CONFIG_RELOAD_GOOD] == {(): float(good)}
    assert counts.samples(0)[families.CONFIG_RELOADS] == {("success",): 1, ("failure",): 1}
    assert counts.samples(0)[families.CONFIG_RELOAD_TIME] == {(): 5.0}
