"""Finds the smallest number for which a condition holds, testing many numbers at a time.

Each question about a log on Spark is a job, so few questions about many numbers are better than the
reverse.
"""

from collections.abc import Callable, Sequence

Test = Callable[[Sequence[int]], Sequence[bool]]


def first_true(test: Test, false_at: int, true_at: int, at_once: int) -> int:
    """The smallest number for which a monotone test holds.

    Args:
        test: returns whether the condition holds for each of these ascending numbers.
        false_at: a number for which it does not hold.
        true_at: a larger number for which it holds.
        at_once: the number of tests per round.
    """
    while true_at - false_at > 1:
        width = true_at - false_at
        ways = min(at_once, width - 1)
        asked = [false_at + width * step // (ways + 1) for step in range(1, ways + 1)]
        holds = dict(zip(asked, test(asked), strict=True))
        true_at = min([true_at, *(number for number in asked if holds[number])])
        false_at = max([false_at, *(number for number in asked if not holds[number])])
    return true_at
