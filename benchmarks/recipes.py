"""Recipes: what an input holds. Equal recipes give equal files."""

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import StrEnum

WINDOW_MS = 600_000
"""Event time that one batch of a steady input spans."""

LOAD_ROWS = 500_000

PRELUDE_ROWS = 500
"""Rows of a batch of the prelude."""


class Draw(StrEnum):
    """How keys are drawn."""

    UNIFORM = "uniform"
    ZIPF = "zipf"
    """Bounded Zipf with exponent 1.1."""
    FORGET = "forget"
    """Every key once, then batches of one row: see `inputs.forgetting`."""
    SPARSE = "sparse"
    """Every key once, then batches of few keys drawn from all: see `inputs.sparse`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """An input of `batches` batches of `rows` rows over `ids` keys."""

    draw: Draw
    rows: int
    batches: int
    ids: int
    prelude: int = 0
    """Short batches before them, for the JVM to compile what it does in every batch."""
    seed: int = 20_250_303

    @property
    def loads(self) -> int:
        """Batches at the begin of a sparse input that write every key once."""
        return -(-self.ids // LOAD_ROWS) if self.draw is Draw.SPARSE else 0

    @property
    def span_ms(self) -> int:
        """Event time from the first to the last batch of a steady or sparse input."""
        return (self.loads + self.batches) * WINDOW_MS

    @property
    def folder(self) -> str:
        """The name of the folder it is kept in."""
        mark = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.draw}-{self.batches}x{self.rows}-of-{self.ids}-{mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """An idle policy's windows, milliseconds."""

    min_ms: int
    max_ms: int


def nothing_due(recipe: Recipe) -> Windows:
    """Windows under which no key of a steady input ends, though busy ones are re-armed."""
    return Windows(min_ms=recipe.span_ms * 6 // 10, max_ms=recipe.span_ms * 11 // 10)


def churn(recipe: Recipe) -> Windows:
    """Windows so short that the input spans a little more than four times the max."""
    max_ms = recipe.span_ms * 6 // 25
    return Windows(min_ms=max_ms * 2 // 3, max_ms=max_ms)
