"""Outlooks: forecasts and budgets follow the figures, survive a restart, and are exported."""

import math
from pathlib import Path

import pytest

from idlestate.backends.files.folder import Folder
from idlestate.errors import StoreError
from idlestate.metrics import families
from idlestate.metrics.forecast import Range
from idlestate.metrics.history import SLOT_MS, SLOTS_A_DAY, HistoryFile, Size
from idlestate.metrics.operator_forecasts import Outlooks
from idlestate.metrics.operator_metrics import samples_of
from idlestate.metrics.operator_statistics import OperatorStatistics, Outlook
from idlestate.metrics.samples import Samples
from idlestate.retention.budget import Budget

UID = "u"


def figures(live_keys: int, state_bytes: int = 0) -> OperatorStatistics:
    return OperatorStatistics(operator=UID, live_keys=live_keys, state_bytes=state_bytes)


def shown(outlooks: Outlooks, now: OperatorStatistics) -> Samples:
    return samples_of([outlooks.complete(now)], 0)


def filled(outlooks: Outlooks, slots: int, keys_a_slot: int = 0) -> OperatorStatistics:
    for slot in range(slots):
        keys = 1000 + slot * keys_a_slot
        outlooks.note(figures(keys, 100 * keys), slot * SLOT_MS)
    return figures(keys, 100 * keys)


def test_forecasts_and_budgets_are_exported() -> None:
    outlooks = Outlooks(lambda _: Budget(keys=50_000, bytes=10**9))
    now = filled(outlooks, 3 * SLOTS_A_DAY, keys_a_slot=10)
    live, growth = now.live_keys, 10 * SLOTS_A_DAY
    found = shown(outlooks, now)
    assert found[families.BUDGET_KEYS] == {(UID,): 50_000}
    assert found[families.BUDGET_BYTES] == {(UID,): 10**9}
    assert found[families.FORECAST] == {
        (UID, "1h", "low"): pytest.approx(live + 60 * live / (live - growth)),
        (UID, "1h", "high"): pytest.approx(live + 60 * live / (live - growth)),
        (UID, "24h", "low"): live + growth,
        (UID, "24h", "high"): live + growth,
    }
    full_s = found[families.BUDGET_FULL]
    assert full_s == {(UID, "keys"): math.inf, (UID, "bytes"): math.inf}
    outlooks = Outlooks(lambda _: Budget(keys=live + growth))
    filled(outlooks, 3 * SLOTS_A_DAY, keys_a_slot=10)
    assert shown(outlooks, now)[families.BUDGET_FULL] == {(UID, "keys"): 86_400}


def test_without_history_and_budget_nothing_is_exported() -> None:
    found = shown(Outlooks(), figures(5))
    for name in (
        families.BUDGET_KEYS,
        families.BUDGET_BYTES,
        families.BUDGET_FULL,
        families.FORECAST,
    ):
        assert found[name] == {}


def test_a_budget_that_is_reached_is_full_at_once() -> None:
    outlooks = Outlooks(lambda _: Budget(keys=10, bytes=500))
    outlooks.note(figures(9), 0)
    assert shown(outlooks, figures(10, 499))[families.BUDGET_FULL] == {
        (UID, "keys"): 0,
        (UID, "bytes"): math.inf,
    }


@pytest.mark.parametrize("sizes", [(2000,), (2000, 999), (1000, 999), (999, 1000)])
def test_a_budget_that_is_left_is_no_longer_full(sizes: tuple[int, ...]) -> None:
    """Within ten minutes, as at the end of a backlog, after which no row may come."""
    outlooks = Outlooks(lambda _: Budget(keys=1000, bytes=100_000))
    filled(outlooks, 7)
    for size in sizes:
        outlooks.note(figures(size, 100 * size), 6 * SLOT_MS)
    full_s = shown(outlooks, figures(sizes[-1], 100 * sizes[-1]))[families.BUDGET_FULL]
    assert [each == 0 for each in full_s.values()] == [sizes[-1] >= 1000] * 2


@pytest.mark.parametrize(("later", "expected"), [(1125, 1000), (1126, 1252), (874, 748)])
def test_a_size_that_is_far_from_the_last_one_changes_the_forecast_at_once(
    later: int, expected: int
) -> None:
    outlooks = Outlooks()
    filled(outlooks, 7)
    outlooks.note(figures(later, 100_000), 6 * SLOT_MS)
    assert outlooks.complete(figures(later)).outlook.in_1h == Range(*[expected] * 3)


def test_a_new_budget_counts_from_the_next_size_on() -> None:
    budget = Budget()
    outlooks = Outlooks(lambda _: budget)
    now = filled(outlooks, 7, keys_a_slot=100)
    budget = Budget(keys=now.live_keys + 300)
    outlooks.note(now, 6 * SLOT_MS)
    assert outlooks.complete(now).outlook.keys_full_s == 1800


def test_histories_survive_a_restart_and_go_with_their_operator(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "history"))
    file = HistoryFile(folder, "u.npy")
    first = Outlooks(file_of=lambda _: file)
    now = filled(first, 7)
    again = Outlooks(file_of=lambda _: file)
    assert again.complete(now).outlook == Outlook()
    again.note(now, 7 * SLOT_MS)
    assert again.complete(now).outlook.in_1h == Range(1000, 1000, 1000)
    again.keep([UID])
    assert folder.names("") == ["u.npy"]
    again.keep([])
    assert folder.names("") == []
    assert again.complete(now).outlook == Outlook()


def test_histories_are_kept_in_stores_elsewhere_too() -> None:
    folder = Folder("mock:///checkpoint")
    assert not folder.is_local
    file = HistoryFile(folder, "idlestate/u/history.npy")
    now = filled(Outlooks(file_of=lambda _: file), 7)
    again = Outlooks(file_of=lambda _: file)
    again.note(now, 7 * SLOT_MS)
    assert again.complete(now).outlook.in_1h == Range(1000, 1000, 1000)


def test_a_history_that_cannot_be_read_for_a_while_is_not_written_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = HistoryFile(Folder("mock:///other"), "u.npy")
    now = filled(Outlooks(file_of=lambda _: file), 7)
    again = Outlooks(file_of=lambda _: file)

    def unreachable(folder: Folder, name: str) -> bytes:
        raise StoreError("the store cannot be reached")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "read", unreachable)
        again.note(now, 7 * SLOT_MS)
    assert again.complete(now).outlook == Outlook()
    again.note(now, 8 * SLOT_MS)
    assert len(again.sizes(UID)) == 8


def test_what_was_rolled_back_is_not_taken_over(tmp_path: Path) -> None:
    file = HistoryFile(Folder(str(tmp_path)), "u.npy")
    filled(Outlooks(file_of=lambda _: file), 20, keys_a_slot=100)
    again = Outlooks(file_of=lambda _: file)
    again.note(figures(1000), 6 * SLOT_MS)
    assert again.sizes(UID)[-1] == Size(6 * SLOT_MS, 1000)
    assert len(again.sizes(UID)) == 7


def test_an_operator_in_another_place_has_another_past(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    file = HistoryFile(folder, "one.npy")
    outlooks = Outlooks(file_of=lambda _: file)
    now = filled(outlooks, 7)
    file = HistoryFile(folder, "two.npy")
    outlooks.note(now, 7 * SLOT_MS)
    assert len(outlooks.sizes(UID)) == 1


def test_a_history_that_cannot_be_saved_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = HistoryFile(Folder(str(tmp_path / "file")), "u.npy")
    outlooks = Outlooks(file_of=lambda _: file)
    now = filled(outlooks, 7)
    assert outlooks.complete(now).outlook.in_1h is not None
