"""Entries of Spark's logs that are lost or not complete: commands say so, and guess nothing."""

from pathlib import Path

import pytest

import idlestate
from idlestate import Policy
from idlestate.errors import DamagedStateError, RefusedError
from tests.pipeline.test_explanations import one_life
from tests.reference import Rule


@pytest.mark.parametrize("content", ["", "v2\n", 'v2\n{"nextBatch', "v2\n[]", "\0" * 90])
@pytest.mark.parametrize("log", ["commits", "offsets"])
def test_an_entry_of_a_log_that_is_not_complete_is_damaged(
    tmp_path: Path, log: str, content: str
) -> None:
    one_life(tmp_path, Rule(ttl_ms=40), [0, 10])
    (tmp_path / log / "1").write_text(content)
    with pytest.raises(DamagedStateError, match=f"{log}/1 is damaged .*; restore it from a copy"):
        idlestate.explain([0], tmp_path)


def test_an_entry_without_the_watermark_is_not_taken_for_one_at_the_beginning(
    tmp_path: Path,
) -> None:
    one_life(tmp_path, Rule(ttl_ms=40), [0])
    (tmp_path / "commits" / "0").write_text("v2\n{}")
    with pytest.raises(RefusedError, match="cannot find 'nextBatchWatermarkMs' of a batch in com"):
        idlestate.explain([0], tmp_path)


def test_lost_commits_are_not_taken_for_a_query_that_is_new(tmp_path: Path) -> None:
    one_life(tmp_path, Rule(ttl_ms=40), [0, 10])
    (tmp_path / "commits" / "0").unlink()
    idlestate.explain([0], tmp_path)
    (tmp_path / "commits" / "1").unlink()
    with pytest.raises(DamagedStateError, match="commits/0 is missing, although batch 1 was"):
        idlestate.explain([0], tmp_path)
    with pytest.raises(DamagedStateError, match="commits/0 is missing"):
        idlestate.plan(Policy(), tmp_path)
