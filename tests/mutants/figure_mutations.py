"""Figures, forecasts, budgets and the limit of a change, broken in every way we could think of."""

from tests.mutants.mutation import Mutation

RETENTION, BACKENDS, METRICS = "retention", "backends", "metrics"
SUITES = (
    "tests/retention/test_time_bins.py",
    "tests/metrics/test_operator_metrics.py",
    "tests/metrics/test_forecast.py",
    "tests/metrics/test_history.py",
    "tests/metrics/test_operator_forecasts.py",
    "tests/backends/test_shard_ages.py",
    "tests/pipeline/test_policy_plans.py",
    "tests/sidecar/test_key_ages.py",
    "tests/sidecar/test_overdue.py",
    "tests/sidecar/test_shrink.py",
    "tests/config/test_loading.py",
)


def _mutation(name: str, room: str, old: str, new: str) -> Mutation:
    return Mutation(name, room, old, new, SUITES)


FIGURE_MUTATIONS = [
    # ---- outlooks
    _mutation(
        "a budget that is left stays full",
        METRICS,
        "made_for = figures.policy, budget, *reached",
        "made_for = figures.policy, budget, False, False",
    ),
    _mutation(
        "a forecast ignores that the size is another one",
        METRICS,
        "_FAR * abs(now - before) <= before for",
        "_FAR * abs(now - before) < 10**18 for",
    ),
    # ---- due keys and idle ages
    _mutation(
        "a bin's last key is not counted where the bin ends",
        RETENTION,
        'each.lines[each.times_ms.searchsorted(moments, "right")]',
        'each.lines[each.times_ms.searchsorted(moments, "left")]',
    ),
    _mutation(
        "the last key of a bin is spread over it like the others",
        RETENTION,
        "slopes = np.maximum(self._keys - 1, 0) /",
        "slopes = self._keys /",
    ),
    _mutation(
        "keys of one moment have no bin of their own",
        RETENTION,
        "apart = np.flatnonzero((upto - below)[1:] > 1) + 1",
        "apart = np.flatnonzero((upto - below)[1:] > len(ordered)) + 1",
    ),
    _mutation(
        "a sample does not stand for all keys",
        RETENTION,
        "np.rint(counts * (keys / len(ordered)))",
        "np.rint(counts * 1.0)",
    ),
    _mutation(
        "later times have a negative age",
        RETENTION,
        "return Ramps(middle, np.zeros(len(middle)), self._keys.astype(np.float64))",
        "return Ramps(middle - 10**13, -1e13 * self._keys, self._keys.astype(np.float64))",
    ),
    _mutation(
        "what ended since the look is due for ever",
        METRICS,
        "due = np.maximum(counts[:, 1:] - counts[:, :1], 0)",
        "due = np.maximum(counts[:, 1:], 0)",
    ),
    _mutation(
        "the first open life counts as closed",
        METRICS,
        "return NEVER_MS if end_ms is None or end_ms == FOREVER_MS else end_ms - 1",
        "return NEVER_MS if end_ms is None or end_ms == FOREVER_MS else end_ms",
    ),
    _mutation(
        "the floor counts keys that are due",
        METRICS,
        "staying = keys - counts[:, 1:]",
        "staying = keys - counts[:, :1]",
    ),
    _mutation(
        "a key that is exactly as old as a bound is older",
        METRICS,
        "before = KeyTimes.counts(accesses, times_ms - np.array(AGE_BUCKETS_MS) - 1)",
        "before = KeyTimes.counts(accesses, times_ms - np.array(AGE_BUCKETS_MS))",
    ),
    _mutation(
        "keys are never looked at between two minutes",
        BACKENDS,
        "is_stale = changed > _CHANGED_SHARE * live",
        "is_stale = changed > 1e9",
    ),
    _mutation(
        "keys are looked at in every batch",
        BACKENDS,
        "is_stale = changed > _CHANGED_SHARE * live",
        "is_stale = True",
    ),
    _mutation(
        "changes since the last look are forgotten",
        BACKENDS,
        "        changed += self.changed\n",
        "",
    ),
    _mutation(
        "a sample is taken for the first deadline",
        BACKENDS,
        "first_end_ms=int(ends_ms.min(initial=FOREVER_MS)) if is_whole else unseen_end_ms,",
        "first_end_ms=int(ends_ms.min(initial=FOREVER_MS)),",
    ),
    _mutation(
        "another policy's deadlines stay",
        BACKENDS,
        "if self.policies != policies or not 0 <= now_ms - self.at_ms < _WAIT_MS:",
        "if not self.policies or not 0 <= now_ms - self.at_ms < _WAIT_MS:",
    ),
    # ---- lag
    _mutation(
        "a life that has not ended yet lags",
        METRICS,
        "return max(self.time_ms(now_ms) - self.next_end_ms, 0)",
        "return abs(self.time_ms(now_ms) - self.next_end_ms)",
    ),
    _mutation(
        "lag in event time counts by the wall clock",
        METRICS,
        "if self.policy.time is TimeDomain.EVENT:\n            return max(",
        "if self.policy.time is not TimeDomain.EVENT:\n            return max(",
    ),
    _mutation(
        "lag in event time counts from the watermark of the batch before",
        METRICS,
        "return max(self.reached_ms, self.watermark_ms or 0)",
        "return self.watermark_ms or 0",
    ),
    # ---- forecasts
    _mutation(
        "the next hour takes yesterday's change as it was",
        METRICS,
        "change = (later - then) * times",
        "change = later - then",
    ),
    _mutation(
        "growth after a small yesterday is unbounded",
        METRICS,
        "times = min(now / then, _MOST_TIMES) if then else _MOST_TIMES",
        "times = now / then if then else _MOST_TIMES",
    ),
    _mutation(
        "the range of a day spans yesterday alone",
        METRICS,
        "lately = rows[:, -1 - SLOTS_AN_HOUR :]",
        "lately = rows[-1:, -1 - SLOTS_AN_HOUR :]",
    ),
    _mutation(
        "one step up goes on for ever",
        METRICS,
        "usual: Curve = np.median(newest, axis=0) if len(newest) == _MEDIAN_OF else newest[-1]",
        "usual: Curve = newest[-1]",
    ),
    _mutation(
        "what fills a new operator counts as growth",
        METRICS,
        "first = int(rows[0, 0]) + -(-settling_ms // SLOT_MS)",
        "first = int(rows[0, 0])",
    ),
    _mutation(
        "a long gap is interpolated",
        METRICS,
        "gaps = np.flatnonzero(np.diff(slots) > MAX_GAP)",
        "gaps = np.flatnonzero(np.diff(slots) > 10**9)",
    ),
    _mutation(
        "what was rolled back is taken over",
        METRICS,
        "return cls(rows[rows[:, 0] <= until_ms // SLOT_MS])",
        "return cls(rows)",
    ),
    _mutation(
        "a history that cannot be read for a while is written over",
        METRICS,
        "        except StoreError:\n            raise\n",
        "",
    ),
    # ---- budgets
    _mutation(
        "a budget that is reached is not full",
        METRICS,
        "0.0 if size >= most else full_s",
        "0.0 if size > most else full_s",
    ),
    _mutation(
        "a forecast that reaches the budget exactly never fills it",
        METRICS,
        "full = np.flatnonzero(ahead >= budget)",
        "full = np.flatnonzero(ahead > budget)",
    ),
    _mutation(
        "a budget is full a slot early",
        METRICS,
        "return float((full[0] + 1) * _SLOT_S)",
        "return float(full[0] * _SLOT_S)",
    ),
    _mutation(
        "a changed budget counts from the next slot only",
        METRICS,
        "if not is_new and known.made_for == made_for and known.is_near(sizes):",
        "if not is_new and known.is_near(sizes):",
    ),
    _mutation(
        "the budget of a policy goes before that of the operator",
        "config",
        "if named and named.budget:",
        "if named and not named.budget:",
    ),
    # ---- the limit of a change
    _mutation(
        "a change that removes exactly its limit is refused",
        BACKENDS,
        "if self.shrink <= most:",
        "if self.shrink < most:",
    ),
    _mutation(
        "keys that the current policy removes too count",
        BACKENDS,
        "return self.horizons[0].more.keys / self.live_keys if self.live_keys else 0.0",
        "return self.horizons[0].new.keys / self.live_keys if self.live_keys else 0.0",
    ),
    _mutation(
        "overdue keys count as live",
        BACKENDS,
        "return self.stored_keys - self.horizons[0].current.keys",
        "return self.stored_keys",
    ),
    _mutation(
        "what both policies end counts as the change",
        BACKENDS,
        "_removal(by_either & ~is_due(kept_ms, at_ms), new_bytes),",
        "_removal(by_either, new_bytes),",
    ),
]
