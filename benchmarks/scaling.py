"""What the report says of growing state and of a second executor."""

import statistics
from collections.abc import Sequence

from aims_against_spark import EXECUTOR_PROCESSOR, EXECUTOR_SHARE, SPACE, SPARSE_GROWTH, aim_of
from results import Result
from tables import mib, table, verdict

_SPARSE = (
    "contestant",
    *("ids", "mean/batch", "median", "longest", "processor/batch", "written/batch"),
    *("rows/life", "aim", "", "named", "older only"),
)


def sparse_section(results: Sequence[Result]) -> list[str]:
    """Batches of few keys on small, middle and large state.

    Args:
        results: of the sparse suites that ran, the smallest state first.
    """
    recipe = results[0].job.recipe
    lines = [f"## sparse: {recipe.rows:,} different keys a batch", ""]
    lines += [*table(_SPARSE, [_sparse_row(each) for each in results]), ""]
    ours = [each for each in results if each.digest is not None]
    if len(ours) > 1:
        small, large = ours[0], ours[-1]
        sizes = f"from {small.job.recipe.ids:,} to {large.job.recipe.ids:,} ids"
        for what, times in (
            ("time", statistics.mean(large.batch_ms) / statistics.mean(small.batch_ms)),
            ("processor time", large.processor_ms / small.processor_ms),
            ("bytes written", large.written_mean / small.written_mean),
        ):
            lines.append(f"{what} of a batch {sizes}: {_times(times, SPARSE_GROWTH)}")
    for result in ours:
        aim = aim_of(result.job)
        peers = [
            each
            for each in results
            if aim and each.job.suite == result.job.suite and each.job.contestant is aim.peer
        ]
        if aim and peers:
            times = result.median / peers[0].median
            lines.append(
                f"on {result.job.recipe.ids:,} ids {times:.1f} times as fast as "
                f"{aim.peer.text} (aim: {aim.times:g}): {verdict(times >= aim.times)}"
            )
    return [*lines, ""]


def _sparse_row(result: Result) -> list[str]:
    is_ours = result.digest is not None
    return [
        result.job.contestant.text,
        f"{result.job.recipe.ids:,}",
        f"{statistics.mean(result.batch_ms):,.0f} ms",
        f"{statistics.median(result.batch_ms):,.0f} ms",
        f"{max(result.batch_ms):,.0f} ms",
        f"{result.processor_ms / 1000:.2f} s",
        mib(result.written_mean),
        f"{result.rows_per_life:.2f}" if is_ours else "",
        f"at most {SPACE:g}" if is_ours else "",
        verdict(result.rows_per_life <= SPACE) if is_ours else "",
        mib(result.named_bytes),
        mib(result.disk_bytes - result.named_bytes) if is_ours else "",
    ]


def executors_section(results: Sequence[Result]) -> list[str]:
    """One executor beside two, each of one core.

    Args:
        results: of the runs, that on one executor first.
    """
    recipe = results[0].job.recipe
    columns = ("executors", "rows/s", "processor/row", "rows of state", "bytes of state")
    rows = [
        [
            result.job.case,
            f"{result.median:,.0f}",
            f"{1e6 * _processor_s(result):.2f} us",
            " + ".join(f"{each['rows']:,}" for each in result.executors),
            " + ".join(mib(each["bytes"]) for each in result.executors),
        ]
        for result in results
    ]
    lines = [f"## executors: {recipe.rows:,} rows a batch over {recipe.ids:,} ids", ""]
    lines += [*table(columns, rows), ""]
    if len(results) == 2:
        one, two = results
        times = _processor_s(two) / _processor_s(one)
        lines.append(f"processor time of a row on two: {_times(times, EXECUTOR_PROCESSOR)}")
        same = one.digest == two.digest and one.expire_rows == two.expire_rows
        lines.append(f"final states and expire rows {'are the same' if same else 'DIFFER'}")
        for what in ("rows", "bytes"):
            held = [each[what] for each in two.executors]
            off = max(held) / min(held) - 1
            is_even = len(held) == 2 and off <= EXECUTOR_SHARE
            lines.append(
                f"{what} of state differ by {off:.1%} (at most {EXECUTOR_SHARE:.0%}): "
                f"{verdict(is_even)}"
            )
    return [*lines, ""]


def _processor_s(result: Result) -> float:
    """Processor seconds per row, of all processes."""
    return result.processor_ms / 1000 / result.job.recipe.rows


def _times(times: float, aim: float) -> str:
    return f"{times:.2f} times (at most {aim:g}): {verdict(times <= aim)}"
