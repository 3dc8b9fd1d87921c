"""The ready-made files: they load without a word, and say what they are meant to say."""

from pathlib import Path

import pytest

import idlestate.config
from idlestate.config.loading import load_config
from idlestate.retention.policy import FOREVER_MS, Policy

FOLDER = Path(idlestate.config.__file__).resolve().parent
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
THIRTY_TO_FORTY_FIVE_MINUTES = Policy(
    idle_min_ms=1_800_000, idle_max_ms=2_700_000, remember_ms=FOREVER_MS
)


def test_there_are_examples() -> None:
    assert [path.name for path in EXAMPLES] == ["clicks.yaml", "sidecar.yaml", "wikipedia.yaml"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_gives_no_warning(path: Path) -> None:
    assert load_config(path).warnings == ()


@pytest.mark.parametrize(
    ("name", "uid", "key"),
    [("clicks", "clicks-by-session", ("session_id",)), ("wikipedia", "edits-by-user", ("user",))],
)
def test_policies_and_keys(name: str, uid: str, key: tuple[str, ...]) -> None:
    config = load_config(FOLDER / f"{name}.yaml")
    assert config.policy_for(uid) == THIRTY_TO_FORTY_FIVE_MINUTES
    assert config.pipelines[uid].key == key
    assert config.pipelines[uid].delay_ms == 600_000


def test_the_main_job_reads_a_file_at_a_time_and_writes_below_build() -> None:
    clicks = load_config(FOLDER / "clicks.yaml").pipelines["clicks-by-session"]
    assert (clicks.source.path, clicks.source.files_per_batch) == ("build/clicks", 1)
    assert clicks.checkpoint == "build/checkpoint"
    places = (clicks.sinks.results, clicks.sinks.expired, clicks.sinks.rejects)
    assert places == ("build/out/results", "build/out/expired", "build/out/rejects")
