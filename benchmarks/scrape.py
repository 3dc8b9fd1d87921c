"""A scrape of many operators with every metric: seconds, series and bytes.

    scrape.py [--quick]

Every figure is the median of five scrapes, none of them a repeated one. With 10,000 operators the
limit on series is in force. The aims go by processor time, which other programs on the machine
disturb less.
"""

import argparse
import statistics
import time

import numpy as np

from idlestate.metrics import families, scrape_cache
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.operator_metrics import OperatorMetrics
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.samples import BucketCounts
from idlestate.retention.budget import Budget
from idlestate.retention.policy import Policy
from idlestate.retention.time_bins import KeyTimes, TimeBins
from idlestate.timers.clock import SystemClock

ROUNDS = 5
SHARDS = 16
HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
AIMS_S = {1_000: 0.1, 10_000: 1.0}


def key_times(seed: int) -> KeyTimes:
    """Of keys in every shard of an operator, spread over an hour."""
    times_ms = np.random.default_rng(seed).integers(NOW_MS - HOUR_MS, NOW_MS, (SHARDS, 1_000))
    return KeyTimes(TimeBins.of(each, len(each)) for each in times_ms)


ACCESSES, ENDS = key_times(1), key_times(2)


def figures(number: int) -> OperatorStatistics:
    counted = {name: BucketCounts.none(name).with_value(name, 0.02) for name in families.DURATIONS}
    return OperatorStatistics(
        operator=f"clicks-by-session-{number}",
        watermark_ms=NOW_MS,
        input_rows=10_000_000 + number,
        live_keys=500_000 + number,
        state_bytes=60_000_000,
        ends=ENDS,
        accesses=ACCESSES,
        policy=Policy(idle_min="30m", idle_max="45m"),
        swept_ms=NOW_MS,
        compacted_ms=NOW_MS,
        durations=counted,
        budget=Budget(keys=1_000_000, bytes=1_000_000_000),
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="100 operators")
    given = options.parse_args()
    scrape_cache.CACHE_S = 0.0
    print(f"{'operators':>10} {'series':>9} {'MB':>6} {'clock s':>8} {'processor s':>12}")
    for count in (100,) if given.quick else AIMS_S:
        every = [figures(number) for number in range(count)]
        made = Exporter(SystemClock())
        OperatorMetrics(made, lambda _, every=every: every)
        clock, processor, body = [], [], b""
        for _ in range(ROUNDS):
            start_s, start_cpu_s = time.perf_counter(), time.process_time()
            body = made.reply("").body
            clock.append(time.perf_counter() - start_s)
            processor.append(time.process_time() - start_cpu_s)
        series = sum(not line.startswith(b"#") for line in body.splitlines())
        taken_s = statistics.median(processor)
        told = f"{count:10,} {series:9,} {len(body) / 1e6:6.1f} {statistics.median(clock):8.3f}"
        told += f" {taken_s:12.3f}"
        if count in AIMS_S:
            aim_s = AIMS_S[count]
            told += f"   aim {aim_s:g} s: {'met' if taken_s <= aim_s else 'MISSED'}"
        print(told)


if __name__ == "__main__":
    main()
