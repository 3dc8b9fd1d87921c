"""Laws over random cases prove something only if the cases contain what is difficult."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers


def assert_frequent(
    contents: Callable[..., Iterable[str]],
    shares: Mapping[str, float],
    *strategies: st.SearchStrategy[Any],
    examples: int = 100,
) -> None:
    """Check what cases of these strategies contain, on cases that a fixed seed draws.

    The cases of one run resemble each other: of 40 that a law draws, none may contain what a fifth
    of all contain. So the shares are not counted in the law itself.

    Args:
        contents: what a case contains, by name.
        shares: names, each with the least share of the cases.
        strategies: of the arguments of `contents`.
        examples: how many cases.
    """
    seen: Counter[str] = Counter()

    @seed(0)
    @settings(
        max_examples=examples,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(*strategies))
    def count(case: tuple[Any, ...]) -> None:
        seen.update({"cases", *contents(*case)})

    with patch.object(providers.HypothesisProvider, "_maybe_draw_constant", return_value=None):
        count()
    for name, expected in shares.items():
        share = seen[name] / seen["cases"]
        assert share >= expected, f"only {share:.0%} of {seen['cases']} cases contain {name}"
