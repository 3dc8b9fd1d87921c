"""The smallest number for which something holds, many numbers asked about at a time.

Each question about a log on Spark is a job, so a few questions about many windows are better than
many about one.
"""

from collections.abc import Callable, Sequence

WAYS = 40
"""So many numbers are asked about in a round."""

Test = Callable[[Sequence[int]], Sequence[bool]]


def first_true(test: Test, false_at: int, true_at: int) -> int:
    """The smallest number for which a monotone test holds.

    Args:
        test: whether it holds for each of these numbers, ascending.
        false_at: a number for which it does not hold.
        true_at: a larger number for which it holds.
    """
    while true_at - false_at > 1:
        width = true_at - false_at
        ways = min(WAYS, width - 1)
        asked = [false_at + width * step // (ways + 1) for step in range(1, ways + 1)]
        holds = dict(zip(asked, test(asked), strict=True))
        true_at = min([true_at, *(number for number in asked if holds[number])])
        false_at = max([false_at, *(number for number in asked if not holds[number])])
    return true_at
