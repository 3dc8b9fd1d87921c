"""Numbers of things, in words."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number and what it counts: `1 key`, `2,000 keys`; by default a plural ends in s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
