"""Laws over random cases prove something only if the cases contain what is difficult."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st


def assert_frequent(
    contents: Callable[..., Iterable[str]],
    shares: Mapping[str, float],
    *strategies: st.SearchStrategy[Any],
    examples: int = 100,
) -> None:
    """Check what cases of these strategies contain, on the same cases every time.

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

    count()
    for name, least in shares.items():
        share = seen[name] / seen["cases"]
        # Hypothesis also draws constants of the modules that are loaded, so shares vary a little.
        assert share >= least / 2, f"only {share:.0%} of {seen['cases']} cases contain {name}"
