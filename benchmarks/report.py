"""The report: tables of results, ratios to the peer of the same suite, and the aims."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from aims_against_spark import FORGET_MS, aim_of
from contestants import SPARKS
from jobs import CHURN, EXECUTORS, FORGET, JOINS, SPARSE_SUITES, Job
from results import Result
from scaling import executors_section, sparse_section
from tables import mib, table, verdict

_COLUMNS = (
    "contestant",
    "rows/s",
    "min",
    "max",
    "ratio",
    "aim",
    "",
    "processor/batch",
    "first batch",
    "peak memory",
    "of it Python",
    "bytes/key",
    "written/batch",
)
_NOTES = """\
rows/s: the median of the later batches, then the slowest and the fastest. ratio: to Spark's own
operator in the same suite, the first line; in the small ones to transformWithState; of an interval
join to Spark's with state format 4.
processor/batch: processor time of all processes in a later batch, which other work on the machine
disturbs least. peak memory: resident bytes of the driver JVM and all Python processes at one time;
pages they share count in each.
bytes/key: retain's runs of one version; for Spark's store the files and the memory that RocksDB
reports. written/batch: what a batch leaves in the checkpoint."""


def write_report(
    results: Sequence[Result], churned: Mapping[str, Mapping[str, int]], machine: str
) -> str:
    """The whole report as Markdown.

    Args:
        results: of every job that ran.
        churned: per suite what `inputs.churn_of` says of its input.
        machine: what it was measured on.
    """
    parts = [f"# idlestate benchmarks\n\n{machine}\n\n{_NOTES}\n"]
    sparse = [result for result in results if result.job.suite in SPARSE_SUITES]
    for suite in dict.fromkeys(result.job.suite for result in results):
        mine = [result for result in results if result.job.suite == suite]
        if suite in SPARSE_SUITES:
            continue
        if suite == EXECUTORS:
            parts += executors_section(mine)
            continue
        if suite == FORGET:
            parts += _forgetting(mine)
            continue
        recipe = mine[0].job.recipe
        heading = f"## {suite}: {recipe.rows:,} rows a batch over {recipe.ids:,} ids"
        parts += [heading, "", *table(_COLUMNS, [_row(each, mine) for each in mine]), ""]
        parts += [_churn(each, churned.get(suite)) for each in mine if each.job.case == CHURN]
        parts += [_joined(each) for each in mine if suite in JOINS]
        parts += [""]
    if sparse:
        parts += sparse_section(sparse)
    return "\n".join(parts)


def ratio(result: Result, peers: Iterable[Result]) -> float | None:
    """How many times the rate of the peer its aim names; None without the peer."""
    aim = aim_of(result.job)
    rates = [each.median for each in peers if aim and each.job.contestant is aim.peer]
    return result.median / rates[0] if rates else None


def _row(result: Result, peers: Sequence[Result]) -> list[str]:
    job = result.job
    times = ratio(result, peers)
    aim = aim_of(job) if _is_ours(job) else None
    reached = "" if aim is None or times is None else verdict(times >= aim.times)
    return [
        f"{job.contestant.text}{', churn' if job.case == CHURN else ''}",
        f"{result.median:,.0f}",
        f"{min(result.rates):,.0f}",
        f"{max(result.rates):,.0f}",
        f"{times:.2f}" if times else "",
        f"{aim.times:g}" if aim else "",
        reached,
        f"{result.processor_ms / 1000:.2f} s",
        f"{result.first_ms / 1000:.1f} s",
        mib(result.peak["total"]),
        mib(result.peak["python"]),
        f"{result.bytes_per_key:.0f}" if result.bytes_per_key else "",
        mib(result.written),
    ]


def _churn(result: Result, drawn: Mapping[str, int] | None) -> str:
    """What a churn run forgot, against what counts as churn."""
    job = result.job
    keys = drawn["keys"] if drawn else 0
    spans = result.spans_max
    if job.contestant.name == "retain-event" and drawn and job.windows:
        spans = drawn["span_ms"] / job.windows.max_ms
    # Distinct keys where the input says them for certain, else lives: a key may end twice.
    ended, back = result.expired, result.returning_keys
    if drawn and job.contestant.name == "retain-event":
        ended, back = drawn["end"], drawn["come_back"]
    is_churn = keys > 0 and spans >= 4 and ended * 5 >= keys and back * 20 >= keys
    consumed = "all" if result.expire_rows == result.expired else "NOT ALL"
    return (
        f"{job.contestant.text}, churn: times span {spans:.1f} x max; of {keys:,} keys at least "
        f"{ended:,} ended and {back:,} came back ({'is' if is_churn else 'is NOT'} churn as "
        f"wanted); {result.expired:,} lives ended, {consumed} of their expire rows reached the "
        f"sink; {result.returning_keys:,} returning keys; {result.late:,} late rows."
    )


def _joined(result: Result) -> str:
    """How many rows a join emitted, and whether its state stays flat."""
    emitted = sum(batch["sink_rows"] for batch in result.batches)
    text = f"{result.job.contestant.text}: {emitted:,} rows emitted"
    sizes = [batch["bytes_per_live_row"] for batch in result.later]
    sizes = [size for size in sizes if size is not None]
    if sizes:
        text += f"; {min(sizes):.0f} to {max(sizes):.0f} bytes per live row in later batches"
    return f"{text}.  "


def _forgetting(results: Sequence[Result]) -> list[str]:
    ids = results[0].job.recipe.ids
    lines = [f"## forget: {ids:,} keys at once", ""]
    rows = []
    for result in results:
        for label, batches in _sweeps(result):
            times = sorted(batch["ms"] for batch in batches)
            worst = times[len(times) // 2]
            rows.append(
                [
                    f"{result.job.contestant.text}: {label}",
                    str(len(times)),
                    f"{worst:,} ms",
                    f"{times[0]:,} ms",
                    f"{times[-1]:,} ms",
                    f"{max(b['update_ms'] + b['timer_ms'] for b in batches):,} ms",
                    f"{max(b['commit_ms'] for b in batches):,} ms",
                    f"{min(b['expire_rows'] for b in batches):,}",
                    f"< {FORGET_MS:,} ms" if _is_ours(result.job) else "",
                    verdict(worst < FORGET_MS) if _is_ours(result.job) else "",
                ]
            )
    columns = (
        *("batch that forgets", "times", "median", "min", "max"),
        *("most in handlers, all tasks", "most in commits", "expire rows", "aim", ""),
    )
    return [*lines, *table(columns, rows), ""]


def _sweeps(result: Result) -> list[tuple[str, list[dict[str, Any]]]]:
    """The batches that forget every key, by kind."""
    ids = result.job.recipe.ids
    batches = result.batches
    if _is_ours(result.job):
        found = [batch for batch in batches if batch["expire_rows"] >= ids]
    else:
        found = [batch for before, batch in pairwise(batches) if before["rows"] >= ids]
    kinds = [
        ("one row comes", [batch for batch in found if batch["rows"]]),
        ("batch without data", [batch for batch in found if not batch["rows"]]),
    ]
    return [(label, some) for label, some in kinds if some]


def _is_ours(job: Job) -> bool:
    return job.contestant not in SPARKS
