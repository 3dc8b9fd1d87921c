"""A configuration file that changes while its pipeline runs: what is taken up, what is refused."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from idlestate.backends.checkpoint.operator_layout import OperatorLayout, write_layout
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.operator_kind import OperatorKind
from idlestate.backends.shards.planned_removals import Horizon, PolicyPlan, Removal
from idlestate.backends.shards.stream_join import stream_join
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.file_watch import FileWatch
from idlestate.config.loading import load_config
from idlestate.errors import UnavailableError
from idlestate.metrics import families
from idlestate.metrics.exporter import Exporter, RegistryBridge
from idlestate.metrics.reload_counts import ReloadCounts
from idlestate.pipeline.policy_change import POLICY_DELAY_MS, reload
from idlestate.retention.budget import Budget
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.service.reload_signal import HangUps
from idlestate.service.reloads import Reloads
from idlestate.timers.clock import FakeClock
from tests.service.command_line import CommandLine

NOW_MS = 1_700_000_000_000
SECONDS = "idlestate_config_last_reload_success_timestamp_seconds"


class HangUp(HangUps):
    """A signal that tests send."""

    def send(self) -> None:
        self._asked = True


class Followed:
    """A pipeline that runs, as far as its reloads can see, and the file it was started from."""

    def __init__(
        self, line: CommandLine, operator: OperatorKind | None = None, **fields: Any
    ) -> None:
        self.file = line.write(**fields)
        self.checkpoint = Folder(str(line.checkpoint))
        self.registry = CollectorRegistry()
        self.clock = FakeClock(NOW_MS)
        self.hang_ups = HangUp()
        self.told: list[str] = []
        config = load_config(self.file)
        spec = TableSpec((("user", pa.string()),), operator or aggregation({"n": "count"}, {}))
        write_layout(self.checkpoint, "clicks", OperatorLayout.of(spec, TimeDomain.EVENT, 2, 2, 10))
        PolicyJournal(self.checkpoint, "clicks").append(
            config.policy_for("clicks"), 0, config.right_policy_for("clicks")
        )
        counts = ReloadCounts()
        exporter = Exporter(self.clock)
        exporter.add(families.OF_RELOADS, counts.samples)
        RegistryBridge(self.registry, exporter)
        self.budgets = {"clicks": Budget()}
        self.reloads = Reloads(
            config,
            "clicks",
            self.checkpoint,
            counts,
            self.clock,
            self.hang_ups,
            self.budgets,
            self.told.append,
        )
        self.look()

    def look(self) -> None:
        """What the driver's loop does, long enough to believe a file."""
        self.reloads.poll()
        self.reloads.poll()

    def save(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def policies(self) -> list[Policy]:
        journal = PolicyJournal(self.checkpoint, "clicks")
        return [version.policy for version in journal.versions]

    def counted(self, result: str) -> float | None:
        return self.registry.get_sample_value("idlestate_config_reloads_total", {"result": result})

    def shown(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)


@pytest.fixture
def followed(line: CommandLine) -> Followed:
    return Followed(line)


def test_a_file_that_stays_as_it_is_says_nothing(followed: Followed) -> None:
    followed.look()
    assert followed.told == []
    assert len(followed.policies()) == 1


def test_a_saved_file_gives_a_version_that_holds_later(followed: Followed) -> None:
    followed.save("30m", "10m")
    followed.look()
    (said,) = followed.told
    assert "clicks uses idle 10m to 45m (version 2)" in said
    assert [policy.idle_min_ms for policy in followed.policies()] == [1_800_000, 600_000]
    newest = PolicyJournal(followed.checkpoint, "clicks").versions[-1]
    assert newest.effective_ms == NOW_MS + POLICY_DELAY_MS
    assert followed.counted("failure") == 0
    followed.look()
    assert len(followed.told) == 1


def test_right_rows_of_a_join_get_a_policy_of_their_own(line: CommandLine) -> None:
    right = {
        "source": {"path": "payments", "format": "parquet"},
        "event_time": "paid_at",
        "policy": "short",
    }
    joined = stream_join("inner", None, [], ["sum"], {"sum": pa.int64()})
    sinks = {"results": "out/results"}
    followed = Followed(line, joined, aggregates=None, kind="join", right=right, sinks=sinks)
    followed.save("policies:\n", "policies:\n  long: {ttl: 2h, max_shrink: 100%}\n")
    followed.save("paid_at\n      policy: short", "paid_at\n      policy: long")
    followed.look()
    (said,) = followed.told
    assert "uses idle 30m to 45m for left rows and ttl 2h for right rows (version 2)" in said
    newest = PolicyJournal(followed.checkpoint, "clicks").versions[-1]
    left, right_policy = newest.of_sides
    assert (left.idle_min_ms, right_policy.ttl_ms) == (1_800_000, 7_200_000)
    version = reload(line.checkpoint, uid="clicks", config=followed.file)
    assert version == newest
    followed.save("event_time: paid_at", "event_time: sent_at")
    followed.look()
    assert "pipelines.clicks.right: changed, which needs a restart" in followed.told[-1]


def test_one_input_of_a_query_gets_another_policy(line: CommandLine) -> None:
    files = {"path": "in", "format": "parquet", "delay": "5m", "event_time": "at"}
    joined = stream_join("inner", None, [], ["p.sum"], {"p.sum": pa.int64()})
    followed = Followed(
        line,
        joined,
        **dict.fromkeys(("source", "event_time", "delay", "key", "aggregates")),
        sources={"orders": files, "payments": {**files, "policy": "short"}},
        query="SELECT o.user, p.sum FROM orders o JOIN payments p ON o.user = p.user",
        sinks={"results": "out/results"},
    )
    followed.save("policies:\n", "policies:\n  long: {ttl: 2h, max_shrink: 100%}\n")
    followed.save("        policy: short", "        policy: long")
    followed.look()
    (said,) = followed.told
    assert "uses idle 30m to 45m for left rows and ttl 2h for right rows (version 2)" in said
    version = reload(line.checkpoint, uid="clicks", config=followed.file)
    assert version == PolicyJournal(followed.checkpoint, "clicks").versions[-1]
    followed.save("event_time: at\n        policy", "event_time: sent_at\n        policy")
    followed.look()
    told = "pipelines.clicks.sources.payments: changed, which needs a restart"
    assert told in followed.told[-1]


def test_a_sidecar_that_is_away_stops_a_reload_and_not_the_pipeline(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> PolicyPlan:
        raise UnavailableError("cannot connect to the sidecar")

    monkeypatch.setattr("idlestate.pipeline.policy_plans.plan_for", away)
    followed.save("max_shrink: 100%", "max_shrink: 50%")
    followed.save("30m", "10m")
    followed.look()
    (said,) = followed.told
    assert "cannot connect to the sidecar" in said
    assert "was not applied; the previous policy stays in effect" in said
    assert followed.counted("failure") == 1


def test_a_policy_that_removes_too_many_keys_is_refused_until_the_file_allows_it(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is planned of a checkpoint is tested there; here all of its keys would go."""
    gone = Horizon(0, new=Removal(10, 100), more=Removal(10, 100))

    def planned(
        _checkpoint: Folder, uid: str, policy: Policy, *_: object, **__: object
    ) -> PolicyPlan:
        return PolicyPlan(uid, 0, Policy(), policy, 10, 100, (gone, gone, gone))

    monkeypatch.setattr("idlestate.pipeline.policy_plans.plan_for", planned)
    followed.save("max_shrink: 100%", "max_shrink: 50%")
    followed.save("30m", "10m")
    followed.look()
    (said,) = followed.told
    assert "would remove 10 of 10 live keys at once (100%)" in said
    assert "was not applied; the previous policy stays in effect" in said
    assert len(followed.policies()) == 1
    assert followed.counted("failure") == 1
    followed.save("max_shrink: 50%", "max_shrink: 100%")
    followed.look()
    assert "clicks uses idle 10m to 45m (version 2)" in followed.told[-1]
    assert followed.policies()[-1].idle_min_ms == 600_000


def test_a_hang_up_reads_the_file_at_once_and_answers(followed: Followed) -> None:
    followed.hang_ups.send()
    followed.reloads.poll()
    assert followed.told == [f"reloaded {followed.file}: nothing changed"]
    followed.save("30m", "10m")
    followed.hang_ups.send()
    followed.reloads.poll()
    assert len(followed.policies()) == 2


def test_a_broken_file_is_refused_by_line_and_field_and_the_old_policy_kept(
    followed: Followed,
) -> None:
    followed.clock.advance(5_000)
    followed.save("30m", "30 parsecs")
    followed.look()
    (said,) = followed.told
    assert f"{followed.file}:5: policies.short.idle.min: " in said
    assert "the previous policy stays in effect" in said
    assert len(followed.policies()) == 1
    assert followed.counted("failure") == 1
    assert followed.shown("idlestate_config_last_reload_successful") == 0
    assert followed.shown(SECONDS) == NOW_MS / 1000
    followed.save("30 parsecs", "30m")
    followed.look()
    assert followed.shown("idlestate_config_last_reload_successful") == 1
    assert followed.shown(SECONDS) == NOW_MS / 1000 + 5
    assert len(followed.policies()) == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("sum(amount)", "max(amount)", "pipelines.clicks.aggregates: changed"),
        ("- user", "- amount", "pipelines.clicks.key: changed"),
        ("delay: 5m", "delay: 6m", "pipelines.clicks.delay: changed"),
        ("shards: 2", "shards: 4", "pipelines.clicks.shards: changed"),
        ("/events", "/others", "pipelines.clicks.source: changed"),
        ("  clicks:", "  others:", "pipeline clicks is missing"),
    ],
)
def test_what_needs_a_restart_is_refused_as_a_whole(followed: Followed, old, new, words) -> None:
    followed.save("30m", "10m")
    followed.save(old, new)
    followed.look()
    (said,) = followed.told
    assert words in said
    assert len(followed.policies()) == 1
    followed.save(new, old)
    followed.look()
    assert len(followed.policies()) == 2


def test_the_time_domain_cannot_change(followed: Followed) -> None:
    text = followed.file.read_text()
    for line in ("    event_time: event_time\n", "    delay: 5m\n"):
        text = text.replace(line, "")
    followed.file.write_text(text.replace("remember: forever", "time: processing"))
    followed.look()
    # Fields that belong to event time alone had to go with it, so they are what differs first.
    assert "pipelines.clicks.event_time" in followed.told[0]
    assert len(followed.policies()) == 1


def test_another_policy_of_the_file_may_be_named(followed: Followed) -> None:
    followed.save("policies:", "policies:\n  long: {idle: 12h}")
    followed.save("policy: short", "policy: long")
    followed.look()
    assert "idle 12h to 18h" in followed.told[0]


def test_a_budget_changes_without_a_restart_and_without_a_new_policy(followed: Followed) -> None:
    followed.save("policy: short", "policy: short\n    budget: {keys: 5}")
    followed.look()
    assert followed.budgets == {"clicks": Budget(keys=5)}
    assert "the budget of clicks changed" in followed.told[-1]
    assert len(followed.policies()) == 1


def test_a_policy_switched_off_is_warned_about(followed: Followed) -> None:
    followed.save("policies:", "policies:\n  none: {idle: never}")
    followed.save("policy: short", "policy: none")
    followed.look()
    assert "clicks uses no retention" in followed.told[0]
    assert "WITHOUT BOUND" in followed.told[0]


def test_a_file_that_is_gone_is_told_once(followed: Followed) -> None:
    followed.file.unlink()
    followed.look()
    followed.look()
    (said,) = followed.told
    assert "cannot be read" in said


def test_a_file_still_being_written_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    watch = FileWatch(file)
    assert not watch.was_saved()
    for text in ("v", "ve", "ver"):
        file.write_text(text)
        assert not watch.was_saved()
    assert watch.was_saved()
    assert not watch.was_saved()


def test_a_file_swapped_by_a_link_counts_as_saved(tmp_path: Path) -> None:
    """As configuration is mounted into containers: same name, length and time, another file."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(name)
        os.utime(tmp_path / name / "a.yaml", (1, 1))
    link = tmp_path / "current"
    link.symlink_to("old")
    watch = FileWatch(link / "a.yaml")
    assert [watch.was_saved() for _ in range(3)] == [False, True, False]
    link.unlink()
    link.symlink_to("new")
    assert [watch.was_saved() for _ in range(3)] == [False, True, False]
