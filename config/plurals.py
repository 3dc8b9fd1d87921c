"""A number with the noun that it counts."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun: `1 key`, `2,000 keys`; by default the plural ends in s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
