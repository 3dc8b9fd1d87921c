"""Values of users, as messages show them."""

import json

SHOWN = 60
"""The maximum number of characters of a value in a message."""


def show(value: object) -> str:
    """The value on one line, shortened if it is long, without unprintable characters."""
    match value:
        case bool():
            text = "true" if value else "false"
        case dict():
            text = "a mapping"
        case list():
            text = "a list"
        case str():
            text = json.dumps(value, ensure_ascii=not value.isprintable())
        case _:
            text = str(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
