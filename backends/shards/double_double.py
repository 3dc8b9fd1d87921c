"""Numbers of about 32 digits as pairs of doubles: the sum is the number, the first approximates it.

Sources: Knuth's two-sum and Dekker's product, both exact unless they overflow.
"""

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Pair = tuple[Doubles, Doubles]
_SPLIT = 2.0**27 + 1


def two_sum(a: Doubles, b: Doubles) -> Pair:
    """The sum a + b, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Doubles, b: Doubles) -> Pair:
    """The product a * b, exact if no factor exceeds 2**996 and the product is not subnormal."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, rest


def add(x: Pair, y: Pair) -> Pair:
    """The sum x + y."""
    total, rest = two_sum(x[0], y[0])
    return two_sum(total, rest + x[1] + y[1])


def multiply(x: Pair, y: Pair) -> Pair:
    """The product x * y."""
    product, rest = two_product(x[0], y[0])
    return two_sum(product, rest + x[0] * y[1] + x[1] * y[0])


def divide(x: Pair, y: Doubles) -> Pair:
    """The quotient x / y."""
    first = x[0] / y
    product, rest = two_product(first, y)
    return two_sum(first, ((x[0] - product) - rest + x[1]) / y)


def _halves(a: Doubles) -> Pair:
    scaled = a * _SPLIT
    high = scaled - (scaled - a)
    return high, a - high
