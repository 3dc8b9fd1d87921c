"""Plans, explanations and the limit of a change, on what real queries leave on every backend."""

import json
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import idlestate
from idlestate import KeyState, Policy
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.patience import PATIENCE_S
from tests.pipeline.clicks import (
    AGGREGATES,
    MINUTE_MS,
    RULE,
    SCHEMA,
    UID,
    click,
    hours,
    record,
    retained,
)
from tests.pipeline.made_checkpoint import tree_hash
from tests.pipeline.streams import Feed, Sink, run, start
from tests.reference_pipeline import play

HOURS, DELAY_MS = 4, 10 * MINUTE_MS
SHORT = replace(RULE, idle_min_ms=5 * MINUTE_MS, idle_max_ms=10 * MINUTE_MS)


def policy(max_shrink: float) -> Policy:
    return Policy(
        idle_min_ms=SHORT.idle_min_ms,
        idle_max_ms=SHORT.idle_max_ms,
        remember_ms=RULE.remember_ms,
        max_shrink=max_shrink,
    )


@pytest.fixture(autouse=True)
def no_sidecars_left() -> Iterator[None]:
    yield
    stop_private_sidecars()


@pytest.mark.parametrize("backend", ["spark", pytest.param("rocksdb", marks=pytest.mark.long)])
def test_what_a_query_leaves_is_planned_explained_and_kept(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, backend: str
) -> None:
    folder = tmp_path_factory.mktemp("q")
    feed, checkpoint = Feed(folder / "input", SCHEMA), folder / "checkpoint"
    batches = hours(0, HOURS)
    for batch in batches:
        feed.add(batch)
    changes = retained(feed.stream(spark), backend=backend)
    idlestate.run_to_end(lambda: start(changes, checkpoint, Sink(), availableNow=True))
    records = [[record(row) for row in batch] for batch in batches]
    played = play(records, RULE, AGGREGATES, delay_ms=DELAY_MS).reference
    before = tree_hash(checkpoint)

    (plan,) = idlestate.plan(policy(1), checkpoint)
    shortened = deepcopy(played)
    shortened.change_rule(SHORT)
    lives = shortened.lives.values()
    ending = sum(shortened.has_ended(life, plan.now_ms) for life in lives)
    assert (plan.stored_keys, plan.horizons[0].current.keys) == (len(played.lives), 0)
    assert plan.horizons[0].more.keys == ending > 0

    states = {}
    for user in ("a", "pauses", "once-0", "never"):
        facts = idlestate.explain({"user": user}, checkpoint).details
        states[user] = facts.state
        if (user,) in played.lives:
            assert facts.deadline_ms == played.end(played.lives[(user,)])[0]
        elif facts.state is KeyState.GONE:
            assert facts.deadline_ms == played.ended[(user,)]
    assert states == {
        "a": KeyState.OPEN,
        "pauses": KeyState.GONE,
        "once-0": KeyState.GONE,
        "never": KeyState.NEVER_SEEN,
    }
    if backend == "spark":  # a sidecar that is asked has files of its own
        assert tree_hash(checkpoint) == before

    refused, allowed = policy(plan.shrink - 0.01), policy(plan.shrink)
    journal = Folder(str(checkpoint))
    with pytest.raises(RefusedError, match="live keys at once"):
        idlestate.reload(checkpoint, uid=UID, policy=refused)
    with pytest.raises(RefusedError, match="live keys at once"):
        run(retained(feed.stream(spark), backend=backend, policy=refused), checkpoint)
    assert len(PolicyJournal(journal, UID).versions) == 1
    run(retained(feed.stream(spark), backend=backend, policy=allowed), checkpoint)
    assert PolicyJournal(journal, UID).versions[-1].policy == allowed


@pytest.mark.long
@pytest.mark.parametrize("backend", ["spark", "heap"])
def test_commands_answer_while_the_query_runs(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, backend: str
) -> None:
    """In processes of their own: a private sidecar has the folder of its state to itself."""
    folder = tmp_path_factory.mktemp("q")
    feed, checkpoint = Feed(folder / "input", SCHEMA), folder / "checkpoint"
    short = folder / "short.yaml"
    short.write_text(
        "version: 1\npolicies: {all: {ttl: 5m, remember: forever}}\n"
        'selectors: [{operator: "*", policy: all}]\n'
    )

    def told(*words: str | Path) -> Any:
        command = [sys.executable, "-m", "idlestate", *words, "--format", "json"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    query = start(retained(feed.stream(spark), backend=backend), checkpoint, Sink())
    try:
        for hour in range(2):
            for batch in hours(hour, 1):
                feed.add(batch)
            query.processAllAvailable()
            last = told("explain", checkpoint, "--key", "a")
            assert last["state"] == "open"
            assert last["created_at_ms"] == record(click("a", 0)).t_ms
            assert last["last_access_ms"] == record(click("a", 60 * hour + 40)).t_ms
        assert told("explain", checkpoint, "--key", "never")["state"] == "never_seen"
        (plan,) = told("plan", short, "--against", checkpoint)
        assert plan["live_keys"] > 0
        assert [each["new"]["keys"] for each in plan["horizons"]][-1] == plan["live_keys"]
        for batch in hours(2, 1):
            feed.add(batch)
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
